// SPDX-License-Identifier: Apache-2.0
// Helpers of unit tests: a temporary directory, and the message of an expected Error.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "support/message.hpp"

namespace lm::test {

// Returns /dev/shm, or the system's temporary directory if /dev/shm is not writable. For tests that
// call fsync many times.
inline std::string memory_root() {
    const char* shm = "/dev/shm";
    return ::access(shm, W_OK) == 0 ? shm : std::filesystem::temp_directory_path().string();
}

// A new directory in `root`, removed with its content at the end of the scope.
class TempDir {
  public:
    explicit TempDir(const std::string& root = std::filesystem::temp_directory_path().string()) {
        std::string name = root + "/lm-test.XXXXXX";
        if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed: " + name);
        path_ = name;
    }
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

struct Caught {
    bool threw = false;
    Exit code = Exit::done;
    std::string message;

    // Whether the message has these parts in this order.
    template <typename... Parts>
    bool says(const Parts&... parts) const {
        return has_in_order(message, {std::string(parts)...});
    }
};

// Returns the Error that `action` throws; threw is false if it throws none.
template <typename Action>
Caught caught(Action&& action) {
    try {
        action();
    } catch (const Error& error) {
        return {true, error.code(), error.what()};
    }
    return {};
}

}  // namespace lm::test
