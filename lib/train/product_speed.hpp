// SPDX-License-Identifier: Apache-2.0
// Measures the matrix products of a device for the node check.
#pragma once

#include <vector>

#include "device/device.hpp"
#include "train/step/trainer_config.hpp"

namespace lm::train {

// Returns the speed of the largest linear layer of the model on `device`, in 1e12 operations/s.
// Takes about 0.2 seconds on a GPU. Allocates memory for the operands, and releases it.
double product_tflops(device::Device& device, const TrainerConfig& config, i64 tp_rank = 0);

// Returns the speed of each GPU that this process sees, measured with the matrix products of Llama
// 7B in bf16. Without a driver returns an empty list. Warns of the first GPU that cannot be used;
// the speed of this GPU and of all later GPUs is 0.
std::vector<double> product_tflops_of_gpus();

}  // namespace lm::train
