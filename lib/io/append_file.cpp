// SPDX-License-Identifier: Apache-2.0
#include "io/append_file.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "io/checked.hpp"

namespace lm::io {
namespace {

constexpr size_t buffer_bytes = size_t{1} << 20;
constexpr size_t direct_bytes = size_t{1} << 17;  // worth a system call of their own

}  // namespace

AppendFile::AppendFile(std::string path)
    : path_(std::move(path)), fd_(checked::create(path_, O_RDWR)), n_written_(file_size(path_)) {}

void AppendFile::write(std::span<const std::byte> bytes) {
    if (n_buffered_ + bytes.size() > buffer_bytes || bytes.size() >= direct_bytes) flush();
    if (bytes.size() >= direct_bytes) {
        checked::write_at(fd_.get(), path_, bytes, n_written_);
        n_written_ += static_cast<i64>(bytes.size());
        return;
    }
    if (bytes.empty()) return;
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes);
    std::memcpy(buffer_.get() + n_buffered_, bytes.data(), bytes.size());
    n_buffered_ += bytes.size();
}

void AppendFile::flush() {
    if (n_buffered_ == 0) return;
    checked::write_at(fd_.get(), path_, {buffer_.get(), n_buffered_}, n_written_);
    n_written_ += static_cast<i64>(n_buffered_);
    n_buffered_ = 0;
}

void AppendFile::truncate(i64 size) {
    flush();
    LM_CHECK(size >= 0 && size <= n_written_, "a file cut to more than it holds");
    if (size == n_written_) return;
    checked::truncate(fd_.get(), path_, size);
    n_written_ = size;
}

bool AppendFile::lock() {
    while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return false;
        if (errno != EINTR) return true;
    }
    return true;
}

void AppendFile::for_each_block(i64 n, const std::function<void(std::span<const std::byte>)>& use) {
    flush();
    std::vector<std::byte> block;
    for (i64 at = 0; at < n; at += static_cast<i64>(block.size())) {
        block.resize(static_cast<size_t>(std::min(i64{1} << 22, n - at)));
        read_exact(fd_, path_, block, at);
        use(block);
    }
}

void AppendFile::sync() {
    flush();
    checked::fsync(fd_.get(), path_);
}

}  // namespace lm::io
