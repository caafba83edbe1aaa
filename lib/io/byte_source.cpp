// SPDX-License-Identifier: Apache-2.0
#include "io/byte_source.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <utility>

#include "io/checked.hpp"
#include "io/pipe_wait.hpp"
#include "io/stream.hpp"

namespace lm::io {
namespace {

constexpr size_t read_bytes = size_t{1} << 20;

}  // namespace

ByteSource::ByteSource(Fd fd, std::string name, i64 begin, int interrupt)
    : fd_(std::move(fd)), name_(std::move(name)), n_read_(begin), interrupt_(interrupt) {
    struct stat status {};
    waits_ = ::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode);
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

void ByteSource::peek(size_t n) {
    make_block();
    while (end_ - begin_ < n && begin_ + n <= read_bytes) {
        const size_t got = read_some({block_.get() + end_, read_bytes - end_});
        if (got == 0) return;
        end_ += got;
    }
}

std::span<const std::byte> ByteSource::next() {
    if (begin_ == end_) {
        make_block();
        begin_ = end_ = 0;  // set before the read, which may throw Interrupted
        end_ = read_some({block_.get(), read_bytes});
    }
    return waiting();
}

size_t ByteSource::read_some(std::span<std::byte> out) {
    while (true) {
        if (waits_) wait_readable();
        const ssize_t n = ::read(fd_.get(), out.data(), out.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) system_error(name_, "read", errno);
        n_read_ += n;
        return static_cast<size_t>(n);
    }
}

void ByteSource::wait_readable() const {
    if (interrupt_ < 0) return await_data(fd_, name_);
    // poll() also waits for the first writer of a FIFO, for which read() would not wait
    // (open_before_writer()).
    pollfd either[] = {{fd_.get(), POLLIN, 0}, {interrupt_, POLLIN, 0}};
    while (::poll(either, std::size(either), -1) < 0) {
        if (errno != EINTR) system_error(name_, "wait for data", errno);
    }
    if (either[1].revents != 0) throw Interrupted();
}

void ByteSource::make_block() {
    if (!block_) block_ = std::make_unique_for_overwrite<std::byte[]>(read_bytes);
}

}  // namespace lm::io
