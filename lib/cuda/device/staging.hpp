// SPDX-License-Identifier: Apache-2.0
// Copies between a GPU and pageable host memory through pinned staging buffers. A direct copy would
// block the CPU and reach only a fraction of the bus bandwidth. Two buffers alternate: while the
// GPU copies one buffer, the CPU fills or empties the other buffer.
#pragma once

#include <cuda_runtime.h>

#include <array>

#include "base/types.hpp"

namespace lm::cuda {

class Staging {
  public:
    // Allocates the buffers. Throws Error(failure) when the system cannot pin that much memory.
    void open();
    void close() noexcept;

    // Copies in stream order. The memory at `host` may be reused on return.
    cudaError_t to_device(void* target, const void* host, i64 bytes, cudaStream_t stream);
    // Copies in stream order. Blocks until the bytes are at `host`.
    cudaError_t to_host(void* host, const void* source, i64 bytes, cudaStream_t stream);

  private:
    static constexpr i64 buffer_bytes = i64{8} << 20;
    struct PinnedBuffer {
        std::byte* data = nullptr;
        cudaEvent_t free = nullptr;  // recorded after the last copy that used the buffer
    };
    std::array<PinnedBuffer, 2> buffers_;
    // For to_device(): bytes staged so far, each copy rounded up to 256. The next byte goes to
    // buffer next_ / buffer_bytes % 2.
    size_t next_ = 0;
};

}  // namespace lm::cuda
