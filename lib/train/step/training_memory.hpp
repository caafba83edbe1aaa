// SPDX-License-Identifier: Apache-2.0
// The memory of a trainer on its device: allocated as planned, and on a GPU compared with the
// driver's figures.
#pragma once

#include <string>

#include "device/device.hpp"
#include "spec/rank_layout.hpp"
#include "train/config/trainer_config.hpp"

namespace lm::train {

// The memory of a trainer on its device, as planned.
struct TrainingMemory {
    cost::MemoryPlan plan;
    device::Buffer weights, masters, gradients;  // flat buffers of the rank's parameters
    device::Buffer optimizer;                    // its states, in sequence
    device::Buffer activations;                  // followed by the workspace of operations
};

// Allocates the memory of a trainer, zero-filled. When the device has too little free memory,
// throws Error(failure) with the memory plan in its text.
TrainingMemory allocate_memory(const TrainerConfig& config, device::Device& device, i64 tp_rank,
                               i64 pp_rank);

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

}  // namespace lm::train
