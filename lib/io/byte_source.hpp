// SPDX-License-Identifier: Apache-2.0
// Reads the bytes of a file or pipe in the order in which they arrive.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "io/file.hpp"

namespace lm::io {

// A descriptor, its name in messages, and one block of bytes. The bytes in the block can be
// inspected before they are consumed, because a pipe cannot be read twice.
class ByteSource {
  public:
    // `begin` is the offset of the descriptor in its file. If `interrupt` is not -1, a read that
    // has to wait throws Interrupted (stream.hpp) as soon as the descriptor `interrupt` is
    // readable.
    ByteSource(Fd fd, std::string name, i64 begin = 0, int interrupt = -1);

    const std::string& name() const { return name_; }
    int fd() const { return fd_.get(); }
    // Returns the offset in the file of the first byte that is not consumed.
    i64 consumed() const { return n_read_ - static_cast<i64>(waiting().size()); }
    std::span<const std::byte> waiting() const { return {block_.get() + begin_, end_ - begin_}; }
    void consume(size_t n) { begin_ += n; }

    // Reads until `n` bytes wait in the block or the file ends. `n` is at most the size of the
    // block, 1 MiB.
    void peek(size_t n);
    // Returns the bytes that wait in the block. When there are none, reads the next block; returns
    // an empty span at the end of the file.
    std::span<const std::byte> next();
    // Reads once, from the descriptor directly into `out`; returns 0 at the end of the file. Call
    // it only when no bytes wait in the block.
    size_t read_some(std::span<std::byte> out);

  private:
    void make_block();
    void wait_readable() const;

    Fd fd_;
    std::string name_;
    i64 n_read_;  // offset in the file after the last read
    int interrupt_;
    bool waits_ = false;  // a pipe or a device: a read may have to wait
    std::unique_ptr<std::byte[]> block_;
    size_t begin_ = 0;  // the waiting bytes are [begin_, end_) of the block
    size_t end_ = 0;
};

}  // namespace lm::io
