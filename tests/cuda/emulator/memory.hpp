// SPDX-License-Identifier: Apache-2.0
// Emulated device memory. It is mapped without access rights except while emulated GPU work runs,
// so that host code which accesses it fails in the tests. Each allocation has a guard page without
// access at either end; the bytes between allocation and guard pages are checked when it is freed.
#pragma once

#include <cstddef>
#include <string>

namespace emulator {

// Allocates memory filled with 0xff (NaN as floats). Returns nullptr when EMULATED_CUDA_MEMORY
// (MiB) would be exceeded. Allocations of 1 GiB and more are zero, and physical memory is used only
// for pages that are accessed.
void* allocate_device(size_t bytes);
// Does the work of memset() for a part of an allocation. Filling 1 GiB or more with zeros releases
// physical memory.
void fill_device(void* target, int value, size_t bytes);
// Returns false when `data` is not an allocation. Ends the process when the bytes around it were
// overwritten.
bool free_device(void* data);
// Returns true when [data, data + bytes) is within one allocation.
bool is_device(const void* data, size_t bytes);
void device_memory(size_t& free, size_t& total);

void* allocate_pinned(size_t bytes);
bool free_pinned(void* data);
bool is_pinned(const void* data);

// Device memory is accessible on all threads while a Window exists.
class Window {
  public:
    Window();
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
};

}  // namespace emulator
