// SPDX-License-Identifier: Apache-2.0
// The memory of a GPU: what the plan wants of it, beside what its driver says.
#pragma once

#include <string>

#include "train/trainer.hpp"

namespace lm::train {

// Bytes of one GPU.
struct GpuMemory {
    i64 buffers = 0;   // of the plan, allocated or to be
    i64 nccl = 0;      // by estimate
    i64 at_start = 0;  // in use before them: the driver's context, libraries, other processes
    i64 in_use = 0;    // now, as the driver says
    i64 total = 0;     // that there are; 0: there is no driver

    i64 planned() const { return buffers + nccl + at_start; }
    // The most that lm-estimate expects: with its allowance for what is there at the start.
    i64 allowed() const;
    // "memory: the driver says 12.1 GiB, the plan 12.0 GiB, difference +0.8 %: buffers ..."
    std::string str() const;
};

// On tensor rank `at.tp` of stage `at.pp`.
GpuMemory gpu_memory(const TrainerConfig& config, const parallel::Coordinates& at,
                     device::Device& device);

// Before anything is allocated: throws Error(failure) when the buffers do not fit; a warning when
// there may be no room for what comes on top.
void require_room(const TrainerConfig& config, const parallel::Coordinates& at,
                  device::Device& device);

// When all is allocated and connected: a warning when more is in use than was allowed for.
void compare_with_driver(const GpuMemory& memory, const std::string& device);

// The parts of a plan, for messages: "weights 1.2 GiB, ...: 4.5 GiB in all".
std::string describe(const cost::MemoryPlan& plan);

}  // namespace lm::train
