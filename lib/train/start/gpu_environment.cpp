// SPDX-License-Identifier: Apache-2.0
#include "train/start/gpu_environment.hpp"

#include <cstdlib>

#include "base/error.hpp"
#include "base/launcher.hpp"

namespace lm::train {
namespace {

// Returns false only when the launcher states a single rank, or when there is no launcher.
bool may_have_several_ranks() {
    using enum Launcher;
    try {
        return launched_by({open_mpi, pmi, pmix, torchrun, slurm}).size != 1;
    } catch (const Error&) {
        return true;  // a variable is invalid: the code that connects the ranks reports the error
    }
}

}  // namespace

void set_gpu_environment(bool deterministic) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    if (may_have_several_ranks()) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    if (deterministic && std::getenv("NCCL_ALGO") == nullptr) setenv("NCCL_NVLS_ENABLE", "0", 0);
}

}  // namespace lm::train
