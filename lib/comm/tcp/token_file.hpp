// SPDX-License-Identifier: Apache-2.0
// The file through which rank 0 gives the other ranks the token of a start
// (comm/tcp/proof.hpp), in a directory that all ranks share.
#pragma once

#include <string>
#include <utility>

namespace lm::comm {

class TokenFile {
  public:
    explicit TokenFile(std::string path) : path_(std::move(path)) {}
    // Removes the file, and its directory if write() has created it and it is empty.
    ~TokenFile();
    TokenFile(const TokenFile&) = delete;
    TokenFile& operator=(const TokenFile&) = delete;

    // Creates the file, which only the user can read, and its directory if needed. Replaces a file
    // of this name, which a killed start has left. Throws Error(failure).
    void write(const std::string& token);
    // Returns the token; an empty text when the file does not exist or is not a regular file.
    static std::string read(const std::string& path);

  private:
    std::string path_;
    bool written_ = false;
    std::string created_directory_;
};

}  // namespace lm::comm
