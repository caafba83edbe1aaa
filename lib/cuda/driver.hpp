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
// of this build do not support it, or the driver refuses it.
void claim_device(int index);

// Returns the versions of the libraries, as Plugin::libraries() states.
std::string libraries_text(int n_ranks);

// Returns ": remedy" for the errors that have one, else "".
std::string advice_on(cudaError_t status);

}  // namespace lm::cuda
