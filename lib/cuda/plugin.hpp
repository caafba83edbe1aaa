// SPDX-License-Identifier: Apache-2.0
// The one symbol of liblm_cuda.so. `abi` stands first and is compared before anything else is used:
// raise it with every change of this struct, of Device, of OpTable or of Group. This header is all
// that the rest of the toolkit sees of CUDA.
#pragma once

#include <memory>

#include "comm/group.hpp"
#include "device/device.hpp"

namespace lm::cuda {

constexpr int plugin_abi = 5;
constexpr const char* plugin_symbol = "lm_cuda_plugin";
constexpr const char* plugin_file = "liblm_cuda.so";

struct Plugin {
    int abi;
    // GPUs that this process, one of `n_ranks`, sees: at least one. Throws Error(failure) that says
    // why there is none: no driver, one that is too old, no GPU.
    int (*count_devices)(int n_ranks);
    // Takes GPU `index` of those for this process. Throws Error(failure) that says why it cannot be
    // used: it is too old, or another process has it for itself.
    void (*claim_device)(int index);
    // GPU `index` of those. Throws Error(failure).
    std::unique_ptr<device::Device> (*open_device)(int index);
    // The ranks of `host` with a device each, connected by NCCL: a group that carries device memory
    // by NCCL and host memory by `host`. Collective; throws Error(usage) when two ranks have the
    // same GPU. The device outlives the group and its parts.
    std::unique_ptr<comm::Group> (*join)(device::Device& device, std::unique_ptr<comm::Group> host,
                                         double timeout_s);
};

}  // namespace lm::cuda
