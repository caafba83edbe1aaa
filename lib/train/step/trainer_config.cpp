// SPDX-License-Identifier: Apache-2.0
#include "train/step/trainer_config.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "train/resolve/gpu_memory.hpp"

namespace lm::train {
namespace {

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

cost::MemoryPlan memory_plan(const TrainerConfig& config, i64 tp_rank, i64 pp_rank) {
    const cost::StepShape step{config.micro_batch, config.model.seq_length, config.n_micro_batches};
    cost::MemoryPlan plan = cost::plan_memory(config.model, config.parallel, step, config.precision,
                                              config.processor(), tp_rank, pp_rank);
    plan.save_buffer = std::min(
        config.save_buffer,
        cost::checkpoint_share(config.model, config.parallel, config.precision, tp_rank, pp_rank));
    return plan;
}

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

}  // namespace lm::train
