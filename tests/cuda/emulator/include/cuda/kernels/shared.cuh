// SPDX-License-Identifier: Apache-2.0
// The emulator's dynamic shared memory: the size that the launch requested, with guards around it,
// filled with NaN before each block.
#pragma once

namespace emulator {
void* dynamic_shared();
}

namespace lm::cuda {

template <typename T>
T* dynamic_shared() {
    return static_cast<T*>(emulator::dynamic_shared());
}

}  // namespace lm::cuda
