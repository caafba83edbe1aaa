// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

namespace lm::cli {
namespace {

constexpr std::string_view clear_line = "\r\x1b[K";

std::mutex status_mutex;
std::string& status_line() {
    static std::string line;
    return line;
}

void write_stderr(std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        text.remove_prefix(static_cast<size_t>(n));
    }
}

}  // namespace

bool stderr_is_terminal() {
    return isatty(STDERR_FILENO) == 1;
}
bool stdout_is_terminal() {
    return isatty(STDOUT_FILENO) == 1;
}

int terminal_width(int fd, int otherwise) {
    struct winsize size = {};
    if (isatty(fd) != 1 || ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
    return size.ws_col;
}

void print_line(std::string_view text) {
    const std::lock_guard lock(status_mutex);
    std::string out;
    if (!status_line().empty()) out += clear_line;
    out.append(text).append("\n").append(status_line());
    write_stderr(out);
}

void set_status_line(std::string_view text) {
    const std::lock_guard lock(status_mutex);
    if (text.empty() && status_line().empty()) return;
    status_line() = text;
    write_stderr(std::string(clear_line).append(text));
}

}  // namespace lm::cli
