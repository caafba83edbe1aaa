// SPDX-License-Identifier: Apache-2.0
#include "train/step/training_memory.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cost/nccl.hpp"

namespace lm::train {
namespace {

// Returns the parts of a plan, for messages: "weights 1.2 GiB, ...: 4.5 GiB in all".
std::string describe(const cost::MemoryPlan& plan) {
    return fmt::format(
        "weights {}, masters {}, gradients {}, optimizer {}, activations {}, "
        "workspace {}: {} in all",
        human_size(plan.weights), human_size(plan.masters), human_size(plan.gradients),
        human_size(plan.optimizer), human_size(plan.activations), human_size(plan.workspace),
        human_size(plan.total()));
}

device::Buffer allocate(device::Device& device, const cost::MemoryPlan& plan, i64 bytes,
                        std::string_view purpose) {
    try {
        return device.allocate(bytes, purpose);
    } catch (const Error& error) {
        throw Error(error.code(),
                    fmt::format("{}: this rank needs {}: use a smaller "
                                "--micro-batch-size, --recompute-activations, or more ranks",
                                error.what(), describe(plan)));
    }
}

}  // namespace

TrainingMemory allocate_memory(const TrainerConfig& config, device::Device& device, i64 tp_rank,
                               i64 pp_rank) {
    const cost::MemoryPlan plan = memory_plan(config, tp_rank, pp_rank);
    return {
        .plan = plan,
        .weights = allocate(device, plan, plan.weights, "weights"),
        .masters = allocate(device, plan, plan.masters, "masters"),
        .gradients = allocate(device, plan, plan.gradients, "gradients"),
        .optimizer = allocate(device, plan, plan.optimizer, "optimizer state"),
        .activations = allocate(device, plan, plan.activations + plan.workspace, "activations")};
}

i64 GpuMemory::allowed() const {
    return buffers + nccl + cost::cuda_allowance_bytes;
}

std::string GpuMemory::str() const {
    const double difference =
        100 * (static_cast<double>(in_use) / static_cast<double>(planned()) - 1);
    return fmt::format(
        "memory: {} by the driver, {} by the plan, difference {:+.1f} %: buffers {}, in use before "
        "them {} (allowance {}){}",
        human_size(in_use), human_size(planned()), difference, human_size(buffers),
        human_size(at_start), human_size(cost::cuda_allowance_bytes),
        nccl > 0 ? fmt::format(", NCCL {} by estimate", human_size(nccl)) : "");
}

GpuMemory gpu_memory(const TrainerConfig& config, const spec::Coordinates& at,
                     device::Device& device) {
    const device::Device::InUse use = device.memory_in_use();
    return {.buffers = memory_plan(config, at.tp, at.pp).total(),
            .nccl = cost::nccl_bytes(config.model, config.parallel, at.pp, config.nccl_use()),
            .at_start = use.at_start,
            .in_use = use.now,
            .total = use.total};
}

void require_room(const TrainerConfig& config, const spec::Coordinates& at,
                  device::Device& device) {
    const GpuMemory memory = gpu_memory(config, at, device);
    if (memory.total == 0) return;
    const i64 free = memory.total - memory.in_use;
    if (memory.buffers > free) {
        run_error(device.name(),
                  "{} of its {} are free, but the run needs {}: use a smaller --micro-batch-size, "
                  "--recompute-granularity, or more ranks",
                  human_size(free), human_size(memory.total),
                  describe(memory_plan(config, at.tp, at.pp)));
    }
    const i64 all = std::max(memory.planned(), memory.allowed());
    if (all <= memory.total) return;
    warn(
        "{0}: the plan needs {4} (buffers {1}, an estimate of {2} for NCCL, and an allowance of "
        "{3} for libraries), but the GPU has {5}: the training may run out of memory",
        device.name(), human_size(memory.buffers), human_size(memory.nccl),
        human_size(all - memory.buffers - memory.nccl), human_size(all), human_size(memory.total));
}

void compare_with_driver(const GpuMemory& memory, const std::string& device) {
    if (memory.in_use <= memory.allowed()) return;
    warn(
        "{}: {} are in use before the first step, {} more than the planned {} (buffers, an "
        "estimate for NCCL, and an allowance of {} for libraries): another process uses the GPU "
        "(see nvidia-smi), or the libraries use more than the allowance",
        device, human_size(memory.in_use), human_size(memory.in_use - memory.allowed()),
        human_size(memory.allowed()), human_size(cost::cuda_allowance_bytes));
}

}  // namespace lm::train
