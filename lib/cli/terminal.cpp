// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string>

#include "base/printable.hpp"
#include "cli/option_text.hpp"

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

std::string folded_line(const std::vector<std::string>& cells, size_t width) {
    constexpr std::string_view gap = "  ";
    constexpr std::string_view indent = "    ";
    std::string text;
    size_t column = 0;
    const auto end_line = [&] {
        text.erase(text.find_last_not_of(' ') + 1);
        text.append("\n").append(indent);
        column = indent.size();
    };
    for (const std::string& given : cells) {
        const std::string cell = printable(given);
        const size_t used = cell.find_last_not_of(' ') + 1;  // without the padding
        const size_t start = text.empty() ? 0 : column + gap.size();
        if (width == 0 || start + used <= width) {
            text.append(start - column, ' ').append(cell);
            column = start + cell.size();
            continue;
        }
        const size_t room = std::max(width, indent.size() + 1) - indent.size();
        const bool fits = used <= room;
        for (const std::string& part : fits ? std::vector{cell} : wrap(cell, room)) {
            if (!text.empty()) end_line();
            text += part;
            column += part.size();
        }
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
}

std::string folded_message(std::string_view text, size_t width) {
    constexpr std::string_view indent = "    ";
    if (width == 0 || text.size() <= width) return std::string(text);
    const size_t room = std::max(width, indent.size() + 1) - indent.size();
    std::string folded;
    for (const std::string& line : wrap(text, room)) {
        if (!folded.empty()) folded.append("\n").append(indent);
        folded += line;
    }
    return folded;
}

std::string with_short_rules(std::string text, size_t width) {
    for (size_t begin = 0; width > 0 && begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const bool is_rule = text.find_first_not_of('-', begin) >= end;
        if (is_rule && end - begin > width) text.erase(begin + width, end - begin - width);
        begin = std::min(text.find('\n', begin), text.size()) + 1;
    }
    return text;
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
