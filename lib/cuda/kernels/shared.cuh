// SPDX-License-Identifier: Apache-2.0
// Dynamic shared memory of a block, aligned to 128 bytes. The emulator of the tests replaces this
// header by one with the same path.
#pragma once

#include <cuda_runtime.h>

namespace lm::cuda {

template <typename T>
__device__ T* dynamic_shared() {
    extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
    return reinterpret_cast<T*>(dynamic_shared_bytes);
}

}  // namespace lm::cuda
