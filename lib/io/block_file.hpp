// SPDX-License-Identifier: Apache-2.0
// Large files, read and written in blocks of 16 MiB by several threads at once, past the page cache
// where the file system allows it (O_DIRECT, open(2)). On other file systems, such as tmpfs,
// transfers go through the page cache. A direct transfer needs memory, offset and size at multiples
// of 4096; any other transfer goes through the page cache, too.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>

#include "io/file.hpp"

namespace lm::io {

constexpr i64 block_bytes = i64{16} << 20;
constexpr i64 block_alignment = 4096;
constexpr int blocks_in_flight = 4;

// Aligned memory for a block of a file, with room for 4096 more bytes at each end of a read whose
// ends are not aligned. The destructor keeps the memory for the next AlignedBlock, because the
// first access to a page takes more time than a copy into the page.
class AlignedBlock {
  public:
    AlignedBlock();
    ~AlignedBlock();
    AlignedBlock(AlignedBlock&&) noexcept = default;
    AlignedBlock& operator=(AlignedBlock&& other) noexcept;
    // Returns the first `n` bytes, at most block_bytes + 2 * block_alignment.
    std::span<std::byte> first(i64 n) const { return {memory_.get(), static_cast<size_t>(n)}; }

  private:
    struct Free {
        void operator()(std::byte* memory) const;
    };
    using Memory = std::unique_ptr<std::byte[], Free>;
    friend struct BlockPool;
    Memory memory_;
};

// An open file. Thread-safe, except for sync().
class BlockFile {
  public:
    // Creates a file of `size` bytes, and reserves its space where the file system supports this.
    // Throws Error(failure) when `path` exists.
    static BlockFile create(const std::string& path, i64 size);
    // Opens a file that several writers fill, each at its own offsets. The first writer creates the
    // file. All writers pass the same `size`.
    static BlockFile create_shared(const std::string& path, i64 size);
    // Opens an existing file for writing at any offset.
    static BlockFile open_write(const std::string& path);
    static BlockFile open_read(const std::string& path);

    const std::string& path() const { return path_; }
    // Writes `bytes` at `offset`. If memory and offset are aligned, the leading multiple of 4096
    // bytes is a direct transfer.
    void write(std::span<const std::byte> bytes, i64 offset) const;
    // Reads n <= block_bytes bytes at `offset` into `block`; returns the part of `block` that has
    // these bytes.
    std::span<std::byte> read(AlignedBlock& block, i64 offset, i64 n) const;
    void sync() const;

  private:
    BlockFile(std::string path, Fd fd, Fd direct)
        : path_(std::move(path)), fd_(std::move(fd)), direct_(std::move(direct)) {}
    std::string path_;
    Fd fd_;
    Fd direct_;  // opened with O_DIRECT; invalid: no direct transfers
};

// Calls body(i, block) for every i in [0, n), in about ascending order, in at most `n_threads`
// threads with one block each. The calling thread is one of the threads. Returns when all calls
// have returned. After an error no further call starts, and the first error is rethrown at the end.
void for_each_block(i64 n, int n_threads,
                    const std::function<void(i64 i, AlignedBlock& block)>& body);

// Appends bytes to `file`, in blocks that threads write in the background. The caller creates the
// file and makes it durable.
class BlockStream {
  public:
    explicit BlockStream(BlockFile file)
        : file_(std::make_shared<const BlockFile>(std::move(file))) {}
    BlockStream(BlockStream&&) = default;
    void append(std::span<const std::byte> bytes);
    void finish();  // returns when all bytes have been written
    i64 size() const { return at_ + used_; }

  private:
    void submit();
    std::shared_ptr<const BlockFile> file_;  // shared with the writes in the background
    AlignedBlock block_;
    i64 at_ = 0;    // offset of block_ in the file
    i64 used_ = 0;  // bytes in block_
    std::deque<std::future<void>> pending_;
};

}  // namespace lm::io
