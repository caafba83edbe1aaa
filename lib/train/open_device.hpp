// SPDX-License-Identifier: Apache-2.0
// Opens the device of --device. CUDA is a plugin, liblm_cuda.so in the directory of this library.
// The plugin is opened for --device cuda, and for --device auto when there is an NVIDIA driver.
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "cuda/plugin.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {

// Returns the plugin. The first call opens the plugin, from the directory in the environment
// variable LM_PLUGIN_DIR if that is set. Throws Error(failure) when the plugin does not exist, when
// a library that it needs is missing, or when the plugin belongs to another build.
const cuda::Plugin& cuda_plugin();

// Returns whether there is an NVIDIA driver, or LM_PLUGIN_DIR is set. Without a driver the plugin
// cannot work, and opening its libraries takes long.
bool has_driver();

// Returns whether the run computes on GPUs. `choice`: the value of --device. With "auto", each rank
// claims its GPU by claim_gpu(). Returns true when all ranks have a GPU, false when no rank has
// one. Throws Error(usage) when only some ranks have a GPU. Collective.
bool choose_gpus(const std::string& choice, comm::Group& world);

// Makes the GPU that rank `place` of a host uses the current device of this process. Returns an
// empty text, or the reason why the plugin or the GPU cannot be used.
std::string claim_gpu(i64 place = 0);

// Opens the device of this rank: the CPU, or the GPU whose index is the rank's index on its host.
// Throws Error(failure). Collective.
std::unique_ptr<device::Device> open_device(const TrainerConfig& config, comm::Group& world);

// Chooses the kernels of a GPU by the configuration: TF32 for fp32 products, cuDNN for attention.
// Does nothing on a CPU. Throws Error(failure). Collective.
void choose_kernels(const TrainerConfig& config, device::Device& device, comm::Group& world);

// With --autotune, measures on a GPU the matrix products of this rank's model for each number of
// SMs that NCCL may occupy. Choices stored in the directory of --autotune are not measured again.
// Call it before anything else is allocated. Throws Error(failure). Collective.
void autotune(const TrainerConfig& config, device::Device& device, comm::Group& world);

// Connects the ranks. Returns the grid of config.parallel. Its groups transfer tensors of `device`,
// over NCCL when several ranks have GPUs. Waits at most `timeout_s` for other ranks. Collective.
parallel::Grid connect(const TrainerConfig& config, device::Device& device, comm::Group& world,
                       double timeout_s);

}  // namespace lm::train
