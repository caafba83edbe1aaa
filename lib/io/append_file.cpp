// SPDX-License-Identifier: Apache-2.0
#include "io/append_file.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "base/error.hpp"
#include "io/checked.hpp"

namespace lm::io {
namespace {

constexpr size_t append_buffer_bytes = size_t{1} << 20;
constexpr size_t unbuffered_bytes =
    size_t{1} << 17;  // writes of at least this size are not copied into the buffer
constexpr size_t direct_buffer_bytes = size_t{2} << 20;
constexpr size_t direct_block_bytes =
    4096;  // alignment of O_DIRECT: memory, offset and size (open(2))

}  // namespace

void AppendFile::Free::operator()(std::byte* memory) const {
    std::free(memory);
}

AppendFile AppendFile::open(std::string path, ReadAgain read_again) {
    Fd fd(checked::create(path, O_RDWR));
    const i64 size = file_size(path);
    // O_DIRECT needs an aligned end, but a file of an interrupted process may end anywhere. When
    // the end is not aligned, appends go through the page cache.
    const bool aligned = size % static_cast<i64>(direct_block_bytes) == 0;
    Fd direct;
    if (read_again == ReadAgain::no && aligned)
        direct = Fd(checked::open_regular(path, O_WRONLY | O_DIRECT | O_NOFOLLOW));
    return {std::move(path), std::move(fd), size, std::move(direct)};
}

AppendFile::AppendFile(std::string path, Fd fd, i64 size, Fd direct)
    : path_(std::move(path)), fd_(std::move(fd)), direct_(std::move(direct)), n_written_(size) {}

void AppendFile::make_buffer(size_t bytes) {
    if (!buffer_)
        buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(direct_block_bytes, bytes)));
    if (!buffer_) throw std::bad_alloc();
}

// Without O_DIRECT, small writes are collected in the buffer to save system calls. A large write
// first flushes the buffer, then goes to the file directly.
void AppendFile::write(std::span<const std::byte> bytes) {
    if (direct_.valid()) return write_direct(bytes);
    if (n_buffered_ + bytes.size() > append_buffer_bytes || bytes.size() >= unbuffered_bytes)
        flush();
    if (bytes.size() >= unbuffered_bytes) {
        checked::write_at(fd_.get(), path_, bytes, n_written_);
        n_written_ += static_cast<i64>(bytes.size());
        return;
    }
    if (bytes.empty()) return;
    make_buffer(append_buffer_bytes);
    std::memcpy(buffer_.get() + n_buffered_, bytes.data(), bytes.size());
    n_buffered_ += bytes.size();
}

// With O_DIRECT every write starts at a multiple of the block size. Bytes are copied into the
// aligned buffer and leave it in whole blocks, 2 MiB at a time.
void AppendFile::write_direct(std::span<const std::byte> bytes) {
    make_buffer(direct_buffer_bytes);
    while (!bytes.empty()) {
        const auto part = bytes.first(std::min(bytes.size(), direct_buffer_bytes - n_buffered_));
        std::memcpy(buffer_.get() + n_buffered_, part.data(), part.size());
        n_buffered_ += part.size();
        bytes = bytes.subspan(part.size());
        if (n_buffered_ == direct_buffer_bytes) write_whole_blocks();
    }
}

// Writes the whole blocks of the buffer. The rest, which is less than a block, moves to the front
// of the buffer.
void AppendFile::write_whole_blocks() {
    const size_t whole = n_buffered_ / direct_block_bytes * direct_block_bytes;
    if (whole == 0) return;
    const std::span<const std::byte> blocks(buffer_.get(), whole);
    // Some file systems accept O_DIRECT in open() and refuse the write with EINVAL.
    if (!checked::write_direct(direct_.get(), path_, blocks, n_written_))
        checked::write_at(fd_.get(), path_, blocks, n_written_);
    n_written_ += static_cast<i64>(whole);
    n_buffered_ -= whole;
    n_flushed_ = 0;
    std::memmove(buffer_.get(), buffer_.get() + whole, n_buffered_);
}

void AppendFile::flush() {
    if (direct_.valid()) {
        write_whole_blocks();
        // The bytes after the last whole block go through the page cache, and also stay in the
        // buffer, because the next whole block starts with them and is written with O_DIRECT.
        const std::span<const std::byte> rest(buffer_.get(), n_buffered_);
        if (n_flushed_ < n_buffered_) checked::write_at(fd_.get(), path_, rest, n_written_);
        n_flushed_ = n_buffered_;
        return;
    }
    if (n_buffered_ == 0) return;
    checked::write_at(fd_.get(), path_, {buffer_.get(), n_buffered_}, n_written_);
    n_written_ += static_cast<i64>(n_buffered_);
    n_buffered_ = 0;
}

void AppendFile::truncate(i64 size) {
    flush();
    LM_CHECK(size >= 0 && size <= this->size(), "{}: expected a size of at most {}, got {}", path_,
             this->size(), size);
    if (size == this->size()) return;
    checked::truncate(fd_.get(), path_, size);
    // When the new end is not aligned, later appends go through the page cache.
    n_written_ = size;
    n_buffered_ = n_flushed_ = 0;
    if (size % static_cast<i64>(direct_block_bytes) != 0) direct_ = Fd();
}

// flock() locks belong to the open file description, so a lock ends with the descriptor, even when
// the process is killed (flock(2)). An error other than EWOULDBLOCK and EINTR means that the file
// system has no locks.
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
