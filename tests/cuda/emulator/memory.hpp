// SPDX-License-Identifier: Apache-2.0
// "Device memory": mapped without any access, except while something of the emulator's GPU runs. So
// host code that touches it dies in the tests instead of on the cluster. Around each allocation lie
// pages that nobody may touch; the bytes between it and them are checked when it is freed.
#pragma once

#include <cstddef>
#include <string>

namespace emulator {

// nullptr: more than there is (EMULATED_CUDA_MEMORY, in MiB). Filled with 0xff, NaN as floats; from
// 1 GiB on with zeros, and of these no more is taken than is touched.
void* allocate_device(size_t bytes);
// As memset, of an allocation's part; zeros give memory back.
void fill_device(void* target, int value, size_t bytes);
// False: not an allocation. Ends the process when something wrote beside it.
bool free_device(void* data);
// Whether [data, data + bytes) lies in one allocation.
bool is_device(const void* data, size_t bytes);
void device_memory(size_t& free, size_t& total);

void* allocate_pinned(size_t bytes);
bool free_pinned(void* data);
bool is_pinned(const void* data);

// Device memory can be used while one of these lives, on any thread.
class Window {
  public:
    Window();
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
};

}  // namespace emulator
