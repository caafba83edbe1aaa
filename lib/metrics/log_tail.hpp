// SPDX-License-Identifier: Apache-2.0
// Reads the lines that programs append to a log, as `tail -F` does: waits for a log that does not
// exist yet, reads a truncated log again from its start, and after a rotation reads the new file
// with the name of the log.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "io/file.hpp"

namespace lm::metrics {

class LogTail {
  public:
    explicit LogTail(std::string path) : path_(std::move(path)) {}
    // Calls `use` with each complete line that programs appended since the last call of poll(),
    // without its line end. Returns the number of lines. A line without a line end is passed to
    // `use` by the later poll() that finds the line end, or by the first poll() after the file was
    // replaced. Throws Error(failure) when the log exists and cannot be read or
    // is not a regular file.
    i64 poll(const std::function<void(std::string_view)>& use);

  private:
    bool open_if_any();
    i64 read_new(const std::function<void(std::string_view)>& use);
    i64 pass_lines(const std::function<void(std::string_view)>& use);
    i64 pass_rest(const std::function<void(std::string_view)>& use);
    bool was_replaced() const;

    std::string path_;
    io::Fd fd_;
    i64 offset_ = 0;    // bytes read from fd_
    std::string rest_;  // text after the last line end
};

}  // namespace lm::metrics
