// SPDX-License-Identifier: Apache-2.0
// The device that --device names. CUDA lives in a plugin, liblm_cuda.so beside this library, that
// is opened only when it is asked for, or looked for by "auto".
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "cuda/plugin.hpp"
#include "train/trainer.hpp"

namespace lm::train {

// The plugin. Throws Error(failure) when there is none, when a library that it needs is missing, or
// when it belongs to another build. The environment's LM_PLUGIN_DIR names another directory to take
// it from.
const cuda::Plugin& cuda_plugin();

// "auto" becomes "cuda" when all ranks can use their GPU, "cpu" when none can. Throws Error(usage)
// when they differ. Collective.
std::string choose_device(const std::string& choice, comm::Group& world);

// The device of this rank: with CUDA, the GPU of its place among the ranks of its host. Throws
// Error(failure). Collective.
std::unique_ptr<device::Device> open_device(const TrainerConfig& config, comm::Group& world);

// The grid of config.parallel, whose groups carry tensors of `device`: over NCCL where several
// ranks have GPUs, which waits `timeout_s` for ranks that do not come. Collective.
parallel::Grid connect(const TrainerConfig& config, device::Device& device, comm::Group& world,
                       double timeout_s);

// True: a plugin is there, and the GPU of rank `place` on its host, of `n_ranks`, is this process's
// to use. False: `why` says what is missing.
bool cuda_is_usable(std::string& why, i64 place = 0, int n_ranks = 1);

}  // namespace lm::train
