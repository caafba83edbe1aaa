// SPDX-License-Identifier: Apache-2.0
// Races inside a block, found by ThreadSanitizer: each emulated thread is a ThreadSanitizer fiber.
// Only these synchronize two threads: __syncthreads(), __syncwarp(), the start and the end of a
// block. Shuffles and votes order no memory (CUDA C++ Programming Guide, "Warp Shuffle
// Functions"). The kernels are compiled with -fsanitize=thread, the emulator is not. Without
// EMULATOR_FINDS_RACES all functions do nothing.
#pragma once

#ifdef EMULATOR_FINDS_RACES
#include <sanitizer/tsan_interface.h>

extern "C" {
void __tsan_read4(void* address);
void __tsan_read16(void* address);
void __tsan_write4(void* address);
void __tsan_write16(void* address);
}

namespace emulator::races {

inline void* new_fiber() {
    return __tsan_create_fiber(0);
}
inline void* current_fiber() {
    return __tsan_get_current_fiber();
}
inline void switch_to(void* fiber) {
    __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
}
inline void release(void* order) {
    __tsan_release(order);
}
inline void acquire(void* order) {
    __tsan_acquire(order);
}
// Report accesses of 4 or 16 bytes of the running thread in code that is not instrumented.
inline void reads(const void* from, int bytes) {
    auto* const address = const_cast<void*>(from);
    bytes == 16 ? __tsan_read16(address) : __tsan_read4(address);
}
inline void writes(void* to, int bytes) {
    bytes == 16 ? __tsan_write16(to) : __tsan_write4(to);
}

}  // namespace emulator::races

#else

namespace emulator::races {

inline void* new_fiber() {
    return nullptr;
}
inline void* current_fiber() {
    return nullptr;
}
inline void switch_to(void*) {}
inline void release(void*) {}
inline void acquire(void*) {}
inline void reads(const void*, int) {}
inline void writes(void*, int) {}

}  // namespace emulator::races
#endif
