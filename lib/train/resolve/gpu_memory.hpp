// SPDX-License-Identifier: Apache-2.0
// The memory plan of a GPU, compared with the driver's figures.
#pragma once

#include <string>

#include "train/step/trainer.hpp"

namespace lm::train {

// The memory of one GPU, in bytes.
struct GpuMemory {
    i64 buffers = 0;   // the memory plan
    i64 nccl = 0;      // estimate of NCCL's memory
    i64 at_start = 0;  // in use before the buffers: driver context, libraries, other processes
    i64 in_use = 0;    // in use now, from the driver
    i64 total = 0;     // all memory; 0: no driver

    i64 planned() const { return buffers + nccl + at_start; }
    // Returns the largest use of memory that lm-estimate expects, its allowance for context and
    // libraries included.
    i64 allowed() const;
    // Returns "memory: 12.1 GiB by the driver, 12.0 GiB by the plan, difference +0.8 %: ...".
    std::string str() const;
};

// Returns the memory of tensor rank `at.tp` of stage `at.pp`.
GpuMemory gpu_memory(const TrainerConfig& config, const spec::Coordinates& at,
                     device::Device& device);

// Throws Error(failure) when the buffers do not fit into the free memory. Warns when the buffers
// fit, but perhaps not together with NCCL and the allowance. Call it before anything is allocated.
void require_room(const TrainerConfig& config, const spec::Coordinates& at, device::Device& device);

// Warns when more memory is in use than allowed(). Call it after everything is allocated and
// connected.
void compare_with_driver(const GpuMemory& memory, const std::string& device);

// Returns the parts of a plan, for messages: "weights 1.2 GiB, ...: 4.5 GiB in all".
std::string describe(const cost::MemoryPlan& plan);

}  // namespace lm::train
