// SPDX-License-Identifier: Apache-2.0
// Kernel launches. Every kernel is started by launch() and never by <<<>>>, so that g++ can compile
// the same sources for the emulated GPU of the tests. The entries of the operation table call
// cudaGetLastError() after each operation to find a failed launch.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "base/dtype.hpp"

namespace lm::cuda {

// Throws an error: the GPU does not allow `bytes` of shared memory for a block.
[[noreturn]] void too_little_shared_memory(size_t bytes);

// Enqueues kernel<<<grid, block, shared_bytes, stream>>>(args...); an empty grid does nothing. By
// default a kernel gets 48 KiB of shared memory, its static arrays (a few KiB) included. More must
// be requested; launch() does this if shared_bytes exceeds 40 KiB.
template <typename... Params, typename... Args>
void launch(cudaStream_t stream, void (*kernel)(Params...), dim3 grid, dim3 block,
            size_t shared_bytes, Args&&... args) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    constexpr size_t granted = 40 << 10;
    if (shared_bytes > granted) {
        const cudaError_t status = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                        static_cast<int>(shared_bytes));
        if (status == cudaErrorInvalidValue) too_little_shared_memory(shared_bytes);
    }
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

// Returns the grid for n items, `per_block` of them for each block, but at most `most` blocks. A
// kernel processes items beyond its grid in a grid-stride loop.
inline dim3 blocks_for(i64 n, i64 per_block, i64 most = i64{1} << 30) {
    const i64 count = ceil_div(n, per_block);
    return dim3(static_cast<unsigned>(count < most ? count : most));
}

// Throws Error(bug): no kernel exists for `dtype`.
[[noreturn]] void no_such_type(DType dtype);

}  // namespace lm::cuda
