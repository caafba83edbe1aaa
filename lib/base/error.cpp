// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/fd_path.hpp"

namespace lm {

Error::Error(Exit code, std::string message)
    : code_(code), message_(without_fd_paths(std::move(message))) {}

void bug(const char* file, int line, std::string_view what) {
    const char* name = std::strrchr(file, '/');
    fail(Exit::bug, fmt::format("{}:{}", name ? name + 1 : file, line),
         "internal error: {}: please report it with the command line", what);
}

Error error_of(const std::exception& exception) {
    if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
    if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
        return {Exit::failure, "out of memory"};
    }
    if (dynamic_cast<const std::system_error*>(&exception) != nullptr) {
        return {Exit::failure,
                fmt::format("system error: {}: check ulimit -a and the limits of the "
                            "job",
                            exception.what())};
    }
    return {Exit::bug, fmt::format("internal error: {}: please report it with the command line",
                                   exception.what())};
}

}  // namespace lm
