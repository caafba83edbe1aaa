// SPDX-License-Identifier: Apache-2.0
// Measures the speed of a device's matrix products for the node check.
#pragma once

#include <vector>

#include "device/device.hpp"
#include "train/config/trainer_config.hpp"

namespace lm::train {

// Returns the speed of the forward pass of the model's largest linear layer on `device`, in 1e12
// operations/s. Takes 0.1 to 0.2 seconds on a GPU. Allocates memory for the operands, and releases
// it.
double product_tflops(device::Device& device, const TrainerConfig& config, i64 tp_rank = 0);

// Returns the speed of each GPU that this process sees, in 1e12 operations/s, measured with the
// largest linear layer of Llama 7B in bf16. Returns an empty list when has_driver() is false or the
// GPUs cannot be counted. Prints a warning about the first error. The GPU that has the error and
// all later GPUs get the speed 0.
std::vector<double> product_tflops_of_gpus();

}  // namespace lm::train
