// SPDX-License-Identifier: Apache-2.0
// Reads the lines that programs append to a log, as `tail -F` does: a log that does not exist yet
// is read once it appears, a truncated log from its start, and after a rotation the new file of
// that name.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "io/file.hpp"

namespace lm::metrics {

class LogTail {
  public:
    explicit LogTail(std::string path) : path_(std::move(path)) {}
    // Calls `use` with each complete line that was appended since the last call, without its line
    // end. Returns the number of lines. A line whose end is not yet written is passed by the call
    // that finds its end, or by the first call after the file was replaced. Throws Error(failure)
    // when the log exists and cannot be read.
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
