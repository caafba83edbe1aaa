// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_tail.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "io/checked.hpp"
#include "io/lines.hpp"

namespace lm::metrics {

bool LogTail::open_if_any() {
    if (fd_.valid()) return true;
    io::Fd fd(io::checked::open_regular(path_, O_RDONLY));  // a device may have no end
    if (!fd.valid()) {
        if (errno == ENOENT) return false;
        run_error(path_, "{}", std::strerror(errno));
    }
    fd_ = std::move(fd);
    offset_ = 0;
    return true;
}

i64 LogTail::pass_rest(const std::function<void(std::string_view)>& use) {
    if (rest_.empty()) return 0;
    use(rest_);
    rest_.clear();
    return 1;
}

// A carriage return ends a line, too, because programs overwrite a progress line with it.
i64 LogTail::pass_lines(const std::function<void(std::string_view)>& use) {
    i64 n_lines = 0;
    size_t begin = 0;
    for (size_t end = rest_.find_first_of("\r\n"); end != std::string::npos;
         end = rest_.find_first_of("\r\n", begin)) {
        if (end > begin) {
            use(std::string_view(rest_).substr(begin, end - begin));
            ++n_lines;
        }
        begin = end + 1;
    }
    rest_.erase(0, begin);
    if (rest_.size() >= io::longest_line) n_lines += pass_rest(use);
    return n_lines;
}

i64 LogTail::read_new(const std::function<void(std::string_view)>& use) {
    std::array<char, io::longest_line> buffer;
    i64 n_lines = 0;
    while (true) {
        const ssize_t n = ::pread(fd_.get(), buffer.data(), buffer.size(), offset_);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) run_error(path_, "{}", std::strerror(errno));
        if (n == 0) return n_lines;
        offset_ += n;
        rest_.append(buffer.data(), static_cast<size_t>(n));
        n_lines += pass_lines(use);
    }
}

// Returns whether another file now has the name of the log. As long as no file has this name, the
// rotation of the log is not complete, and the old file may still grow.
bool LogTail::was_replaced() const {
    struct stat named {};
    struct stat opened {};
    if (::stat(path_.c_str(), &named) != 0 || ::fstat(fd_.get(), &opened) != 0) return false;
    return named.st_ino != opened.st_ino || named.st_dev != opened.st_dev;
}

i64 LogTail::poll(const std::function<void(std::string_view)>& use) {
    if (!open_if_any()) return 0;
    struct stat opened {};
    if (::fstat(fd_.get(), &opened) == 0 && opened.st_size < offset_) {
        offset_ = 0;
        rest_.clear();
    }
    // Checks for a replacement before it reads. A file that was replaced before the check does not
    // grow, so read_new() reaches the end of that file.
    const bool replaced = was_replaced();
    i64 n_lines = read_new(use);
    if (!replaced) return n_lines;
    n_lines += pass_rest(use);
    fd_ = io::Fd();
    if (open_if_any()) n_lines += read_new(use);
    return n_lines;
}

}  // namespace lm::metrics
