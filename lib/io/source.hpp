// SPDX-License-Identifier: Apache-2.0
// The bytes of a file or pipe as they come.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "io/file.hpp"

namespace lm::io {

// The compressed bytes: a descriptor, its name in messages, and one block that can be looked at
// before it is consumed, so that nothing is lost on a pipe.
class ByteSource {
  public:
    // `begin` is where in the file the descriptor stands; `interrupt` as open_stream's.
    ByteSource(Fd fd, std::string name, i64 begin = 0, int interrupt = -1);

    const std::string& name() const { return name_; }
    int fd() const { return fd_.get(); }
    i64 consumed() const { return n_read_ - static_cast<i64>(waiting().size()); }
    std::span<const std::byte> waiting() const { return {block_.get() + begin_, end_ - begin_}; }
    void consume(size_t n) { begin_ += n; }

    // At least min(n, rest of the file) bytes wait afterwards; n is small.
    void peek(size_t n);
    // The waiting bytes, or a fresh block when there are none; empty at the end of the file.
    std::span<const std::byte> next();
    // One read past the block, for plain files; 0 at the end.
    size_t read_some(std::span<std::byte> out);

  private:
    void make_block();
    void wait_readable() const;

    Fd fd_;
    std::string name_;
    i64 n_read_;
    int interrupt_;
    std::unique_ptr<std::byte[]> block_;
    size_t begin_ = 0;
    size_t end_ = 0;
};

}  // namespace lm::io
