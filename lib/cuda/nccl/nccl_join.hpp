// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job come to NCCL: each with a GPU of its own.
#pragma once

#include <memory>

#include "comm/group.hpp"
#include "device/device.hpp"

namespace lm::cuda {

// Collective over `host`, which the result keeps: the ranks of `host` with their devices.
std::unique_ptr<comm::Group> join_nccl(device::Device& device, std::unique_ptr<comm::Group> host,
                                       double timeout_s);

}  // namespace lm::cuda
