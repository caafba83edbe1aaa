// SPDX-License-Identifier: Apache-2.0
// A file that grows under its final name, so that a later process can continue it: buffered
// appends, truncation, reading back. A file that must appear whole is an AtomicFile instead.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"

namespace lm::io {

// States whether the data will be read again soon. With `no`, writes use O_DIRECT where the file
// system supports it, because a copy of the data into the page cache would take more time than all
// other work of writing.
enum class ReadAgain { yes, no };

class AppendFile {
  public:
    // Opens `path`, or creates it. The first write() appends to the existing content.
    static AppendFile open(std::string path, ReadAgain read_again = ReadAgain::yes);

    const std::string& path() const { return path_; }
    i64 size() const { return n_written_ + static_cast<i64>(n_buffered_); }
    // Appends `bytes`; small writes are buffered. The destructor drops the buffer, so call sync()
    // at the end.
    void write(std::span<const std::byte> bytes);
    void flush();
    void truncate(i64 size);  // flushes, then cuts the file to `size` <= size() bytes
    // Acquires a lock (flock(2)), which this object holds until its destruction. Returns false when
    // another process holds the lock. Always returns true on a file system without locks.
    bool lock();
    // Flushes, then passes the bytes [0, n) of the file to `use` in blocks of 4 MiB.
    void for_each_block(i64 n, const std::function<void(std::span<const std::byte>)>& use);
    void sync();  // flushes and makes the content durable
    int fd() const { return fd_.get(); }

  private:
    AppendFile(std::string path, Fd fd, i64 size, Fd direct);
    struct Free {
        void operator()(std::byte* memory) const;
    };
    void make_buffer(size_t bytes);
    void write_direct(std::span<const std::byte> bytes);
    void write_whole_blocks();

    std::string path_;
    Fd fd_;
    Fd direct_;  // the same file, opened with O_DIRECT; invalid: all writes use fd_
    std::unique_ptr<std::byte[], Free> buffer_;
    size_t n_buffered_ = 0;
    size_t n_flushed_ = 0;  // bytes of the buffer that are in the file already
    i64 n_written_ = 0;     // offset of the buffer in the file
};

}  // namespace lm::io
