// SPDX-License-Identifier: Apache-2.0
// A copy of this rank's part of a checkpoint in host memory. take() makes the copy between two
// steps. Then another thread writes the files from the copy, while the training changes the
// original.
//
// Why a copy in host memory and a thread, not a blocking write, fork() or a process that writes. A
// blocking write stops all GPUs for as long as the file system takes: 14 bytes a parameter, minutes
// for a large model on a busy day. The copy takes seconds, at the rate of PCIe or of memory.
//
// fork() would give a copy without copying, but only of host memory: a CUDA context does not
// survive it, and MPI and NCCL forbid it after they have registered memory. On the CPU the next
// update writes to every page of the state, so that copy-on-write copies all of it anyway, page
// fault by page fault inside of that update. A process that writes would need the copy in shared
// memory, which containers limit to 64 MB by default, and a second life to watch. An error in a
// thread is a value that the next step reads.
//
// The price is host memory for the state of the rank, which stays allocated between saves, so that
// a copy has no page faults.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "ckpt/history/save.hpp"

namespace lm::train {

// Host memory whose pages exist already, so that the first copy to it is as fast as later copies.
// Not copyable and not movable.
class HostBuffer {
  public:
    HostBuffer() = default;
    // Throws Error(failure) naming --async-save-buffer when the host has not enough memory.
    explicit HostBuffer(i64 bytes);
    ~HostBuffer();
    HostBuffer(const HostBuffer&) = delete;
    HostBuffer& operator=(const HostBuffer&) = delete;

    std::byte* data() const { return data_; }
    i64 bytes() const { return bytes_; }

  private:
    std::byte* data_ = nullptr;
    i64 bytes_ = 0;
};

class Snapshot {
  public:
    // Allocates a buffer of `bytes` bytes. `n_threads` threads copy.
    Snapshot(i64 bytes, int n_threads) : buffer_(bytes), n_threads_(n_threads) {}

    // Copies the pieces to the buffer. When the buffer is too small, does not copy the pieces that
    // are written first. The writer reads these pieces in their original places, which must not
    // change until wait_for_originals() returns.
    void take(std::vector<ckpt::Piece> pieces);

    // Returns the pieces for ckpt::write_pieces(), in the buffer or in their original place.
    const std::vector<ckpt::Piece>& pieces() const { return pieces_; }
    // Returns whether the thread that called take() must write the files itself, because a piece
    // without a copy is in the memory of a device.
    bool needs_this_thread() const { return needs_this_thread_; }
    // Blocks until every piece without a copy has been read, or until release() is called.
    void wait_for_originals();
    // Makes wait_for_originals() return. Call it when the pieces will not be read any more.
    void release();

  private:
    void copy(const std::vector<ckpt::Piece*>& chosen);
    void leave(ckpt::Piece& piece);
    void was_read(i64 bytes);

    HostBuffer buffer_;
    int n_threads_;
    std::vector<ckpt::Piece> pieces_;
    bool needs_this_thread_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    i64 unread_ = 0;  // bytes of the original places that are still to be read
};

// Returns the bytes of the buffer that holds copies of all `pieces`.
i64 snapshot_bytes(const std::vector<ckpt::Piece>& pieces);

}  // namespace lm::train
