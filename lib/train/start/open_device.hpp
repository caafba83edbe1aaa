// SPDX-License-Identifier: Apache-2.0
// Opens the device that --device selects. The code for GPUs is a plugin, liblm_cuda.so, in the
// directory of this library. lm-train opens the plugin for --device cuda, and for --device auto
// when has_driver() is true.
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "cuda/plugin.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {

// Returns the plugin. The first call opens the plugin. If the environment variable LM_PLUGIN_DIR is
// set, the plugin is in that directory. Throws Error(failure) when the plugin does not exist, when
// a library that it needs is missing, or when the plugin belongs to another build.
const cuda::Plugin& cuda_plugin();

// Returns whether there is an NVIDIA driver or LM_PLUGIN_DIR is set. Call it before cuda_plugin(),
// because the plugin does not work without a driver, and opening its libraries takes long.
bool has_driver();

// Returns whether this rank can be one that computes on a GPU, before the ranks are connected.
// `choice`: the value of --device. With "auto", there is a driver, and this rank can claim the GPU
// of its place on the host if the launcher states that place.
bool may_have_gpu(const std::string& choice);

// Returns whether the run computes on GPUs. `choice`: the value of --device. With "auto", each rank
// that has a driver calls claim_gpu(); the function returns true when all ranks can use a GPU and
// false when no rank can, and throws JointError(usage) when only some ranks can. Collective.
bool choose_gpus(const std::string& choice, comm::Group& world);

// Selects a GPU as the current device of this process. `place`: the index of this rank on its host,
// which determines the GPU. Returns an empty text, or the reason why the plugin or the GPU cannot
// be used.
std::string claim_gpu(i64 place = 0);

// Opens the device of this rank: the CPU or a GPU. If the rank sees several GPUs, uses the GPU
// whose index is the rank's index on its host. Throws Error(failure). Collective.
std::unique_ptr<device::Device> open_device(const TrainerConfig& config, comm::Group& world);

// Sets which kernels a GPU uses: TF32 or not for fp32 products, cuDNN or not for attention.
// Does nothing on a CPU. Throws Error(failure). Collective.
void choose_kernels(const TrainerConfig& config, device::Device& device, comm::Group& world);

// On a GPU, if config.autotune names a directory, measures the matrix products of this rank's part
// of the model, once for each number of SMs that NCCL may occupy. Products whose choice is already
// in the directory are not measured again. Call it before anything else is allocated. Throws
// Error(failure). Collective.
void autotune(const TrainerConfig& config, device::Device& device, comm::Group& world);

// Connects the ranks. Returns the grid of config.parallel. Its groups transfer tensors of `device`,
// over NCCL when several ranks have GPUs. Waits at most `timeout_s` for other ranks. Collective.
parallel::Grid connect(const TrainerConfig& config, device::Device& device, comm::Group& world,
                       double timeout_s);

}  // namespace lm::train
