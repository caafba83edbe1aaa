// SPDX-License-Identifier: Apache-2.0
// Opens the device of --device. CUDA is a plugin, liblm_cuda.so in the directory of this library.
// It is opened for --device cuda, and for --device auto when there is an NVIDIA driver.
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "cuda/plugin.hpp"
#include "train/trainer.hpp"

namespace lm::train {

// Returns the plugin. The first call opens it, from the directory in the environment variable
// LM_PLUGIN_DIR if that is set. Throws Error(failure) when the plugin does not exist, when a
// library that it needs is missing, or when it belongs to another build.
const cuda::Plugin& cuda_plugin();

// For "auto", returns "cuda" when all ranks can use their GPU and "cpu" when no rank can. Throws
// Error(usage) when only some ranks can. Returns other choices unchanged. Collective.
std::string choose_device(const std::string& choice, comm::Group& world);

// Opens the device of this rank: the CPU, or the GPU whose index is the rank's index on its host.
// Throws Error(failure). Collective.
std::unique_ptr<device::Device> open_device(const TrainerConfig& config, comm::Group& world);

// Connects the ranks. Returns the grid of config.parallel. Its groups transfer tensors of `device`,
// over NCCL when several ranks have GPUs. Waits at most `timeout_s` for other ranks. Collective.
parallel::Grid connect(const TrainerConfig& config, device::Device& device, comm::Group& world,
                       double timeout_s);

// Returns true when the plugin can be opened and this process can use the GPU of rank `place` of
// its host, in a job of `n_ranks` ranks. Else sets `why` to the reason and returns false.
bool cuda_is_usable(std::string& why, i64 place = 0, int n_ranks = 1);

}  // namespace lm::train
