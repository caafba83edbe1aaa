// SPDX-License-Identifier: Apache-2.0
// A log that several programs may read and append to: --log-file and --log-json. Each line is one
// write at the end of the file, so lines never mix and a reader never sees half of one.
#pragma once

#include <string>
#include <string_view>

#include "io/file.hpp"

namespace lm::metrics {

class LineFile {
  public:
    // Opens for appending, made when missing. Throws Error(failure) naming the path.
    explicit LineFile(std::string path);
    // Appends `text` and a newline. A full disk must not end a training: the first failure is a
    // warning, the lines that could not be written are lost and counted in the next warning.
    void write(std::string_view text);
    i64 lost_lines() const { return lost_; }

  private:
    std::string path_;
    io::Fd fd_;
    i64 lost_ = 0;
    bool failing_ = false;
};

}  // namespace lm::metrics
