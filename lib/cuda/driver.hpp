// SPDX-License-Identifier: Apache-2.0
// What stands between this process and a GPU: driver, devices, what they can do; each lack with its
// own message.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace lm::cuda {

// At least 1. Throws Error(failure) saying why there is none. The first call says how many ranks
// the process is one of.
int count_devices(int n_ranks);

// Makes the device this process's own place of work. Throws Error(failure) when the kernels of this
// build do not run on it, or the driver does not let this process have it.
void claim_device(int index);

// ": what to do", where there is something; else "".
std::string advice_on(cudaError_t status);

}  // namespace lm::cuda
