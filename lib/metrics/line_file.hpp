// SPDX-License-Identifier: Apache-2.0
// A log that several programs may append to and read: --log-file and --log-json. Each line is one
// write with O_APPEND, so lines never mix (POSIX write()), and a reader sees half a line only after
// a failed write.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "io/file.hpp"

namespace lm::metrics {

class LineFile {
  public:
    // Opens `path` for appending, or creates it. Throws Error(failure) naming the path.
    static LineFile open(std::string path);
    // Appends `text` and a newline. Drops a line that cannot be written, because a full disk must
    // not stop a training. The first failure logs a warning; when a line can be written again, a
    // warning states the number of lines dropped so far.
    void write(std::string_view text);

  private:
    LineFile(std::string path, io::Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
    std::string path_;
    io::Fd fd_;
    i64 lost_ = 0;
    bool failing_ = false;
};

}  // namespace lm::metrics
