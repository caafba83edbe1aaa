// SPDX-License-Identifier: Apache-2.0
// The interface of liblm_cuda.so, and the only header of lib/cuda that other layers include. `abi`
// is the first member and is compared before any other member is used. Increase plugin_abi with
// every change of Plugin, Device, OpTable or Group.
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "device/device.hpp"

namespace lm::cuda {

constexpr int plugin_abi = 7;
constexpr const char* plugin_symbol = "lm_cuda_plugin";
constexpr const char* plugin_file = "liblm_cuda.so";

struct Plugin {
    int abi;
    // Returns the number of GPUs that this process sees: at least one. Throws Error(failure) with
    // the reason when there is none: no driver, an old driver, no GPU.
    int (*count_devices)();
    // Makes GPU `index` of the visible GPUs the current device of this process. Throws
    // Error(failure) when this GPU is too old, or when another process uses it in exclusive mode.
    void (*claim_device)(int index);
    // Opens GPU `index`. Throws Error(failure) when it cannot be opened.
    std::unique_ptr<device::Device> (*open_device)(int index);
    // Returns a group of the ranks of the group `host`. It communicates memory of each rank's
    // `device` by NCCL, and host memory by `host`. Throws Error(usage) when two ranks have the same
    // GPU. The device must outlive the group and its parts. Collective over `host`.
    std::unique_ptr<comm::Group> (*join)(device::Device& device, std::unique_ptr<comm::Group> host,
                                         double timeout_s);
    // Returns "CUDA 12.4, driver for CUDA 12.8, cuBLASLt 12.4.5"; for several ranks also the
    // version of NCCL. Throws Error(failure) when there are several ranks but no NCCL.
    std::string (*libraries)(int n_ranks);
};

}  // namespace lm::cuda

// The symbol `plugin_symbol` of the library.
extern "C" __attribute__((visibility("default"))) const lm::cuda::Plugin* lm_cuda_plugin();
