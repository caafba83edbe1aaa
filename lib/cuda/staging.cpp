// SPDX-License-Identifier: Apache-2.0
#include "cuda/staging.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/units.hpp"

namespace lm::cuda {

void Staging::open() {
    for (Piece& piece : pieces_) {
        void* data = nullptr;
        const cudaError_t status = cudaHostAlloc(&data, piece_bytes, cudaHostAllocDefault);
        if (status != cudaSuccess) {
            run_error("pinned host memory", "cannot allocate {}: {}", human_size(piece_bytes),
                      cudaGetErrorString(status));
        }
        piece.data = static_cast<std::byte*>(data);
        if (cudaEventCreateWithFlags(&piece.free, cudaEventDisableTiming) != cudaSuccess) {
            run_error("pinned host memory", "cannot make an event");
        }
    }
}

void Staging::close() noexcept {
    for (Piece& piece : pieces_) {
        if (piece.free != nullptr) cudaEventDestroy(piece.free);
        if (piece.data != nullptr) cudaFreeHost(piece.data);
        piece = {};
    }
}

// Copies follow each other through the pieces (next_ is the place, in bytes, of the first free
// one), so that many small ones are on their way before the host must wait: for the piece that it
// enters.
cudaError_t Staging::to_device(void* target, const void* host, i64 bytes, cudaStream_t stream) {
    for (i64 begin = 0; begin < bytes;) {
        const auto place = static_cast<i64>(next_);
        const Piece& piece = pieces_[next_ / piece_bytes % pieces_.size()];
        const i64 offset = place % piece_bytes;
        const i64 count = std::min(piece_bytes - offset, bytes - begin);
        cudaError_t status = offset == 0 ? cudaEventSynchronize(piece.free) : cudaSuccess;
        if (status != cudaSuccess) return status;
        const auto n = static_cast<size_t>(count);
        std::memcpy(piece.data + offset, static_cast<const std::byte*>(host) + begin, n);
        status = cudaMemcpyAsync(static_cast<std::byte*>(target) + begin, piece.data + offset, n,
                                 cudaMemcpyHostToDevice, stream);
        if (status == cudaSuccess) status = cudaEventRecord(piece.free, stream);
        if (status != cudaSuccess) return status;
        constexpr i64 alignment = 256;
        next_ = static_cast<size_t>(round_up(place + count, alignment));
        begin += count;
    }
    return cudaSuccess;
}

cudaError_t Staging::to_host(void* host, const void* source, i64 bytes, cudaStream_t stream) {
    const i64 n_pieces = ceil_div(bytes, piece_bytes);
    const auto count = [bytes](i64 i) {
        return static_cast<size_t>(std::min(piece_bytes, bytes - i * piece_bytes));
    };
    // Piece i comes while piece i - 1 is emptied.
    for (i64 i = 0; i <= n_pieces; ++i) {
        if (i < n_pieces) {
            const Piece& piece = pieces_[static_cast<size_t>(i) % pieces_.size()];
            cudaError_t status =
                cudaMemcpyAsync(piece.data, static_cast<const std::byte*>(source) + i * piece_bytes,
                                count(i), cudaMemcpyDeviceToHost, stream);
            if (status == cudaSuccess) status = cudaEventRecord(piece.free, stream);
            if (status != cudaSuccess) return status;
        }
        if (i > 0) {
            const Piece& piece = pieces_[static_cast<size_t>(i - 1) % pieces_.size()];
            const cudaError_t status = cudaEventSynchronize(piece.free);
            if (status != cudaSuccess) return status;
            std::memcpy(static_cast<std::byte*>(host) + (i - 1) * piece_bytes, piece.data,
                        count(i - 1));
        }
    }
    return cudaSuccess;
}

}  // namespace lm::cuda
