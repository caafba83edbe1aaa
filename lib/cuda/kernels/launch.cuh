// SPDX-License-Identifier: Apache-2.0
// How every kernel is started: through one function, never <<<>>>, so that the same sources run on
// a GPU and on the emulator of the tests. A launch that fails shows in cudaGetLastError(), which
// the table's entries check after each operation.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "base/dtype.hpp"

namespace lm::cuda {

// The GPU's blocks cannot have that many bytes.
[[noreturn]] void too_little_shared_memory(size_t bytes);

// kernel<<<grid, block, shared_bytes, stream>>>(args...); an empty grid does nothing. More shared
// memory than the 48 KiB that every kernel is granted is asked for here; what a kernel has
// statically, a few KiB, counts among them.
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

// The number of blocks that give each of n pieces of work a turn, at most `most`: kernels go on
// with what is left by striding.
inline dim3 blocks_for(i64 n, i64 per_block, i64 most = i64{1} << 30) {
    const i64 count = ceil_div(n, per_block);
    return dim3(static_cast<unsigned>(count < most ? count : most));
}

[[noreturn]] void no_such_type(DType dtype);

}  // namespace lm::cuda
