// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/staging.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/units.hpp"

namespace lm::cuda {

void Staging::open() {
    for (PinnedBuffer& buffer : buffers_) {
        void* data = nullptr;
        const cudaError_t status = cudaHostAlloc(&data, buffer_bytes, cudaHostAllocDefault);
        if (status != cudaSuccess) {
            run_error("pinned host memory", "cannot allocate {}: {}", human_size(buffer_bytes),
                      cudaGetErrorString(status));
        }
        buffer.data = static_cast<std::byte*>(data);
        if (cudaEventCreateWithFlags(&buffer.free, cudaEventDisableTiming) != cudaSuccess) {
            run_error("pinned host memory", "cannot create a CUDA event");
        }
    }
}

void Staging::close() noexcept {
    for (PinnedBuffer& buffer : buffers_) {
        if (buffer.free != nullptr) cudaEventDestroy(buffer.free);
        if (buffer.data != nullptr) cudaFreeHost(buffer.data);
        buffer = {};
    }
}

// Consecutive copies use consecutive places in a buffer, so that many small copies can be pending.
// Before the CPU begins to fill a buffer, it waits until the last copy from that buffer has ended.
cudaError_t Staging::to_device(void* target, const void* host, i64 bytes, cudaStream_t stream) {
    for (i64 begin = 0; begin < bytes;) {
        const auto place = static_cast<i64>(next_);
        const PinnedBuffer& buffer = buffers_[next_ / buffer_bytes % buffers_.size()];
        const i64 offset = place % buffer_bytes;
        const i64 count = std::min(buffer_bytes - offset, bytes - begin);
        cudaError_t status = offset == 0 ? cudaEventSynchronize(buffer.free) : cudaSuccess;
        if (status != cudaSuccess) return status;
        const auto n = static_cast<size_t>(count);
        std::memcpy(buffer.data + offset, static_cast<const std::byte*>(host) + begin, n);
        status = cudaMemcpyAsync(static_cast<std::byte*>(target) + begin, buffer.data + offset, n,
                                 cudaMemcpyHostToDevice, stream);
        if (status == cudaSuccess) status = cudaEventRecord(buffer.free, stream);
        if (status != cudaSuccess) return status;
        constexpr i64 alignment = 256;
        next_ = static_cast<size_t>(round_up(place + count, alignment));
        begin += count;
    }
    return cudaSuccess;
}

// Chunk i uses buffer i % 2; the event of a buffer is recorded after its copy.
cudaError_t Staging::to_host(void* host, const void* source, i64 bytes, cudaStream_t stream) {
    const i64 n_chunks = ceil_div(bytes, buffer_bytes);
    const auto count = [bytes](i64 i) {
        return static_cast<size_t>(std::min(buffer_bytes, bytes - i * buffer_bytes));
    };
    // The GPU copies chunk i while the CPU empties chunk i - 1.
    for (i64 i = 0; i <= n_chunks; ++i) {
        if (i < n_chunks) {
            const PinnedBuffer& buffer = buffers_[static_cast<size_t>(i) % buffers_.size()];
            cudaError_t status = cudaMemcpyAsync(
                buffer.data, static_cast<const std::byte*>(source) + i * buffer_bytes, count(i),
                cudaMemcpyDeviceToHost, stream);
            if (status == cudaSuccess) status = cudaEventRecord(buffer.free, stream);
            if (status != cudaSuccess) return status;
        }
        if (i > 0) {
            const PinnedBuffer& buffer = buffers_[static_cast<size_t>(i - 1) % buffers_.size()];
            const cudaError_t status = cudaEventSynchronize(buffer.free);
            if (status != cudaSuccess) return status;
            std::memcpy(static_cast<std::byte*>(host) + (i - 1) * buffer_bytes, buffer.data,
                        count(i - 1));
        }
    }
    return cudaSuccess;
}

}  // namespace lm::cuda
