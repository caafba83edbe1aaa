// SPDX-License-Identifier: Apache-2.0
#include "io/directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/fd_path.hpp"
#include "io/checked.hpp"

namespace lm::io {

Directory::Directory(std::string name, Fd fd)
    : name_(std::move(name)), fd_(std::move(fd)), path_(fd_path(fd_.get())) {
    if (!is_directory(path_)) path_ = name_;
}

Directory Directory::open(const std::string& name) {
    Fd fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid() && (errno == ENOTDIR || errno == ELOOP))
        run_error(name,
                  "is a symbolic link or a file, expected a directory: remove it, or choose "
                  "another name");
    if (!fd.valid()) system_error(name, "open the directory", errno);
    return {name, std::move(fd)};
}

Directory Directory::create(const std::string& name) {
    checked::make_directory(name);
    return open(name);
}

void Directory::check_name() const {
    struct stat opened {
    }, named{};
    if (::fstat(fd_.get(), &opened) != 0) system_error(name_, "get the status", errno);
    if (::lstat(name_.c_str(), &named) == 0 && named.st_dev == opened.st_dev &&
        named.st_ino == opened.st_ino)
        return;
    run_error(name_,
              "was moved or replaced by another program: write to a directory in which only you "
              "can rename files");
}

Directory make_directories_in(const std::string& base, const std::string& relative) {
    Directory directory = Directory::open(base + "/.");  // follows a link that the user named
    for (size_t begin = 0; begin < relative.size();) {
        const size_t end = std::min(relative.find('/', begin), relative.size());
        Directory next = Directory::create(directory / relative.substr(begin, end - begin));
        checked::fsync_path(directory.path());
        directory = std::move(next);
        begin = end + 1;
    }
    return directory;
}

}  // namespace lm::io
