// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of a job by NCCL.
#pragma once

#include <memory>

#include "comm/group.hpp"
#include "device/device.hpp"

namespace lm::cuda {

// Collective over `host`. Returns a group of the same ranks whose device memory is carried by NCCL.
// The group owns `host`. Throws Error(usage) when two ranks have the same GPU, Error(failure) when
// NCCL cannot be opened.
std::unique_ptr<comm::Group> join_nccl(device::Device& device, std::unique_ptr<comm::Group> host,
                                       double timeout_s);

}  // namespace lm::cuda
