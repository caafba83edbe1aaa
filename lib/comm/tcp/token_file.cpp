// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/token_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include "base/error.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::comm {

TokenFile::~TokenFile() {
    if (written_) ::unlink(path_.c_str());
    if (!created_directory_.empty()) ::rmdir(created_directory_.c_str());
}

void TokenFile::write(const std::string& token) {
    constexpr unsigned only_the_user = 0600;
    const std::string directory = std::filesystem::path(path_).parent_path();
    if (!io::is_directory(directory)) {
        io::make_directories(directory);
        created_directory_ = directory;
    }
    if (io::exists(path_)) io::checked::unlink(path_);
    const io::Fd file(io::checked::create(path_, O_EXCL | O_WRONLY | O_NOFOLLOW, only_the_user));
    if (!file.valid()) run_error(path_, "another process created it: start the job again");
    written_ = true;
    io::checked::write_at(file.get(), path_, std::as_bytes(std::span(token)), 0);
}

std::string TokenFile::read(const std::string& path) {
    const io::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    // Another user may have planted the file, or may know its token.
    constexpr mode_t others = S_IRWXG | S_IRWXO;
    if (status.st_uid != ::geteuid() || (status.st_mode & others) != 0) return {};
    std::array<char, 256> text{};
    const ssize_t n = ::read(file.get(), text.data(), text.size());
    return {text.data(), static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

}  // namespace lm::comm
