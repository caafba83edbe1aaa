// SPDX-License-Identifier: Apache-2.0
// The lines of a file with JSON Lines, or of standard input, as they arrive.
#pragma once

#include <optional>
#include <string>

#include "io/file.hpp"

namespace lm::ckpt_tool {

struct RequestLine {
    std::string where;  // "FILE:3"
    std::string text;
};

class RequestLines {
  public:
    // Opens `path` ("-": standard input). Throws Error(usage) when it does not exist.
    static RequestLines open(const std::string& path);

    // Returns the next line that is not empty. Returns nullopt at the end and, without `wait`, when
    // the next line has not arrived yet. Throws Error(usage) when the input has no such line.
    std::optional<RequestLine> next(bool wait);

  private:
    RequestLines(std::string name, io::Fd file) : name_(std::move(name)), file_(std::move(file)) {}
    // Reads more of the input into `rest_`. Returns false when there is nothing to read yet.
    bool read(bool wait);
    std::string take_line();

    std::string name_;
    io::Fd file_;
    std::string rest_;  // begins with the next line
    bool at_end_ = false;
    bool found_ = false;
    i64 number_ = 0;
};

}  // namespace lm::ckpt_tool
