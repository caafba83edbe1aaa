// SPDX-License-Identifier: Apache-2.0
#include "metrics/line_file.hpp"

#include <fcntl.h>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/checked.hpp"

namespace lm::metrics {

LineFile::LineFile(std::string path)
    : path_(std::move(path)), fd_(io::checked::create(path_, O_WRONLY | O_APPEND)) {}

void LineFile::write(std::string_view text) {
    // After a failure the file may end with half a line.
    std::string line(failing_ ? "\n" : "");
    line += text;
    line += '\n';
    try {
        // With O_APPEND, pwrite appends whatever the offset is (Linux, pwrite(2), BUGS).
        io::checked::write_at(fd_.get(), path_, std::as_bytes(std::span(line)), 0);
        if (failing_) warn("{}: can be written again, {} lines are missing", path_, lost_);
        failing_ = false;
    } catch (const Error& error) {
        ++lost_;
        if (!failing_) warn("{}: training goes on without this log", error.what());
        failing_ = true;
    }
}

}  // namespace lm::metrics
