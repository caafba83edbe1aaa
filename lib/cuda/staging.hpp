// SPDX-License-Identifier: Apache-2.0
// Copies between a GPU and ordinary host memory by way of pinned memory, without which a copy would
// wait for the GPU and run at a fraction of the bus. Two pieces take turns: while one is on its
// way, the other is filled or emptied.
#pragma once

#include <cuda_runtime.h>

#include <array>

#include "base/types.hpp"

namespace lm::cuda {

class Staging {
  public:
    // Throws Error(failure) when the host has no memory to pin.
    void open();
    void close() noexcept;

    // `host` may be used again at once; the GPU has the bytes before what `stream` is told next.
    cudaError_t to_device(void* target, const void* host, i64 bytes, cudaStream_t stream);
    // Waits for what `stream` was told before, and until `host` has the bytes.
    cudaError_t to_host(void* host, const void* source, i64 bytes, cudaStream_t stream);

  private:
    static constexpr i64 piece_bytes = i64{8} << 20;
    struct Piece {
        std::byte* data = nullptr;
        cudaEvent_t free = nullptr;  // the copy that last used it
    };
    std::array<Piece, 2> pieces_;
    size_t next_ = 0;
};

}  // namespace lm::cuda
