// SPDX-License-Identifier: Apache-2.0
// Opens the device of --device. CUDA is a plugin, liblm_cuda.so in the directory of this library,
// which is opened for --device cuda, and for --device auto when there is an NVIDIA driver.
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "cuda/plugin.hpp"
#include "train/trainer.hpp"

namespace lm::train {

// Returns the plugin, opened on the first call. Throws Error(failure) when it does not exist, when
// a library that it needs is missing, or when it belongs to another build. The environment variable
// LM_PLUGIN_DIR names another directory for it.
const cuda::Plugin& cuda_plugin();

// Returns "cuda" or "cpu" for "auto": "cuda" when all ranks can use their GPU, "cpu" when none can.
// Throws Error(usage) when only some can. Returns other choices unchanged. Collective.
std::string choose_device(const std::string& choice, comm::Group& world);

// Opens the device of this rank: the CPU, or the GPU with the index of the rank among the ranks of
// its host. Throws Error(failure). Collective.
std::unique_ptr<device::Device> open_device(const TrainerConfig& config, comm::Group& world);

// Connects the ranks: returns the grid of config.parallel, whose groups transfer tensors of
// `device`, over NCCL when several ranks have GPUs. Waits at most `timeout_s` for other ranks.
// Collective.
parallel::Grid connect(const TrainerConfig& config, device::Device& device, comm::Group& world,
                       double timeout_s);

// Returns true when the plugin can be opened and this process can use the GPU of rank `place` of
// its host, of `n_ranks` in all. Otherwise sets `why` to the reason.
bool cuda_is_usable(std::string& why, i64 place = 0, int n_ranks = 1);

}  // namespace lm::train
