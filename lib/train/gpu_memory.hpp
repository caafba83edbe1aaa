// SPDX-License-Identifier: Apache-2.0
// The memory of a GPU: the plan, compared with the driver's figures.
#pragma once

#include <string>

#include "train/trainer.hpp"

namespace lm::train {

// Bytes of one GPU.
struct GpuMemory {
    i64 buffers = 0;   // bytes of the memory plan
    i64 nccl = 0;      // estimate
    i64 at_start = 0;  // in use before the buffers: driver context, libraries, other processes
    i64 in_use = 0;    // now, by the driver
    i64 total = 0;     // all memory; 0: no driver

    i64 planned() const { return buffers + nccl + at_start; }
    // The most that lm-estimate expects, with its allowance for context and libraries.
    i64 allowed() const;
    // Returns "memory: 12.1 GiB by the driver, 12.0 GiB by the plan, difference +0.8 %: ...".
    std::string str() const;
};

// Returns the figures of tensor rank `at.tp` of stage `at.pp`.
GpuMemory gpu_memory(const TrainerConfig& config, const parallel::Coordinates& at,
                     device::Device& device);

// Called before anything is allocated. Throws Error(failure) when the buffers do not fit into the
// free memory; warns when the rest may not fit.
void require_room(const TrainerConfig& config, const parallel::Coordinates& at,
                  device::Device& device);

// Called after everything is allocated and connected. Warns when more memory is in use than allowed
// for.
void compare_with_driver(const GpuMemory& memory, const std::string& device);

// Returns the parts of a plan for messages: "weights 1.2 GiB, ...: 4.5 GiB in all".
std::string describe(const cost::MemoryPlan& plan);

}  // namespace lm::train
