// SPDX-License-Identifier: Apache-2.0
#include "metrics/line_file.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/checked.hpp"

namespace lm::metrics {

LineFile LineFile::open(std::string path) {
    io::Fd fd(io::checked::append_to(path));
    return {std::move(path), std::move(fd)};
}

void LineFile::write(std::string_view text) {
    // After a failed write the file may end with half a line, so the next line begins with a
    // newline.
    std::string line(failing_ ? "\n" : "");
    line += text;
    line += '\n';
    try {
        // With O_APPEND, Linux ignores the offset of pwrite() and appends (pwrite(2), BUGS).
        io::checked::write_at(fd_.get(), path_, std::as_bytes(std::span(line)), 0);
        if (std::exchange(failing_, false)) {
            warn("{}: can be written again: number of lines dropped so far: {}", path_, lost_);
        }
    } catch (const Error& error) {
        ++lost_;
        if (!std::exchange(failing_, true)) {
            warn("{}: training continues without this log until the file can be written",
                 error.what());
        }
    }
}

}  // namespace lm::metrics
