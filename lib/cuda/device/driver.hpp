// SPDX-License-Identifier: Apache-2.0
// Checks of the driver and the devices before a GPU is used. Each missing requirement has its own
// message.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace lm::cuda {

// Returns the number of GPUs, at least 1. Throws Error(failure) with the reason when there is none.
int count_devices();

// Makes device `index` the current device of this process. Throws Error(failure) when the kernels
// of this build do not support the device, or when the driver refuses it.
void claim_device(int index);

// Returns "12.4" for 12040, a version as CUDA states it.
std::string version_text(int version);

// Returns ": REMEDY" for an error with a known remedy, otherwise "".
std::string advice_on(cudaError_t status);

}  // namespace lm::cuda
