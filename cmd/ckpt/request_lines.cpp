// SPDX-License-Identifier: Apache-2.0
#include "request_lines.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "io/pipe_wait.hpp"

namespace lm::ckpt_tool {

RequestLines RequestLines::open(const std::string& path) {
    if (path == "-") {
        io::Fd input(::dup(STDIN_FILENO));
        if (!input.valid()) run_error("standard input", "cannot be read: {}", std::strerror(errno));
        return {"standard input", std::move(input)};
    }
    if (!io::exists(path)) usage_error(path, "does not exist: give a JSON Lines file");
    return {path, io::open_input(path)};
}

bool RequestLines::read(bool wait) {
    if (wait) io::await_data(file_, name_);
    pollfd readable{file_.get(), POLLIN, 0};
    if (!wait && ::poll(&readable, 1, 0) <= 0) return false;
    constexpr size_t part = size_t{64} << 10;
    const size_t before = rest_.size();
    rest_.resize(before + part);
    ssize_t n = 0;
    do {
        n = ::read(file_.get(), rest_.data() + before, part);
    } while (n < 0 && errno == EINTR);
    if (n < 0) run_error(name_, "cannot be read: {}", std::strerror(errno));
    rest_.resize(before + static_cast<size_t>(n));
    at_end_ = n == 0;
    return true;
}

std::string RequestLines::take_line() {
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string line = rest_.substr(0, end);
    rest_.erase(0, end + 1);
    ++number_;
    return line;
}

std::optional<RequestLine> RequestLines::next(bool wait) {
    while (true) {
        while (!at_end_ && rest_.find('\n') == rest_.npos) {
            if (!read(wait)) return std::nullopt;
        }
        if (rest_.empty()) break;
        std::string line = take_line();
        if (line.find_first_not_of(" \t\r") == line.npos) continue;
        found_ = true;
        return RequestLine{fmt::format("{}:{}", name_, number_), std::move(line)};
    }
    if (!found_) usage_error(name_, "has no JSON object: give one in each line");
    return std::nullopt;
}

}  // namespace lm::ckpt_tool
