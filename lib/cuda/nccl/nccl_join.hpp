// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of a job by NCCL.
#pragma once

#include <memory>

#include "comm/group.hpp"
#include "device/device.hpp"

namespace lm::cuda {

// Returns a group of the ranks of `host` that carries device memory by NCCL and host memory by
// `host`. The group owns `host`. Throws Error(usage) when two ranks have the same GPU, and
// Error(failure) when NCCL cannot be opened. Collective over `host`.
std::unique_ptr<comm::Group> join_nccl(device::Device& device, std::unique_ptr<comm::Group> host,
                                       double timeout_s);

}  // namespace lm::cuda
