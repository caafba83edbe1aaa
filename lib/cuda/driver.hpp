// SPDX-License-Identifier: Apache-2.0
// What stands between this process and a GPU: driver, devices, what they can do; each lack with its
// own message.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace lm::cuda {

// At least 1. Throws Error(failure) saying why there is none.
int count_devices();

// Throws Error(failure) when the kernels of this build do not run on the device.
void require_supported(int index, const cudaDeviceProp& properties);

// ": what to do", where there is something; else "".
std::string advice_on(cudaError_t status);

}  // namespace lm::cuda
