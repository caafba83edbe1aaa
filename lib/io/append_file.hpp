// SPDX-License-Identifier: Apache-2.0
// A growing file under a name that stays, for work that a later process goes on with: buffered
// appends, cutting back, reading back. What must appear whole under its final name is an AtomicFile
// instead.
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

// Whether what is written soon will be read again: if not, it need not lie in the page cache, and
// copying it there costs more than everything else about writing it.
enum class ReadAgain { yes, no };

class AppendFile {
  public:
    // Opens `path`, creating it when it is not there; what it holds stays, and appends follow it.
    explicit AppendFile(std::string path, ReadAgain read_again = ReadAgain::yes);

    const std::string& path() const { return path_; }
    i64 size() const { return n_written_ + static_cast<i64>(n_buffered_); }
    // Appends; small pieces are collected. Not flushed by the destructor: unfinished work.
    void write(std::span<const std::byte> bytes);
    void flush();
    void truncate(i64 size);  // flushes; `size` at most size()
    // Takes a lock that lasts as long as the object; false when another process has it. Where the
    // file system knows no locks, everybody gets one.
    bool lock();
    // Reads [0, n) in blocks; what was appended is flushed first.
    void for_each_block(i64 n, const std::function<void(std::span<const std::byte>)>& use);
    void sync();  // flush and fsync
    int fd() const { return fd_.get(); }

  private:
    struct Free {
        void operator()(std::byte* memory) const;
    };
    void make_buffer(size_t bytes);
    void write_past_cache(std::span<const std::byte> bytes);
    void write_whole_blocks();

    std::string path_;
    Fd fd_;
    Fd direct_;  // the same file, past the page cache; invalid where that is not wanted or possible
    std::unique_ptr<std::byte[], Free> buffer_;
    size_t n_buffered_ = 0;
    size_t n_flushed_ = 0;  // of those, bytes that the file holds already
    i64 n_written_ = 0;     // before the buffer
};

}  // namespace lm::io
