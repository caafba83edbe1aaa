// SPDX-License-Identifier: Apache-2.0
#include "io/file_time.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "io/checked.hpp"

namespace lm::io {

double modified_s(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) system_error(path, "read the time", errno);
    constexpr double nano = 1e-9;
    return static_cast<double>(status.st_mtim.tv_sec) +
           nano * static_cast<double>(status.st_mtim.tv_nsec);
}

}  // namespace lm::io
