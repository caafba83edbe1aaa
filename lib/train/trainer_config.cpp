// SPDX-License-Identifier: Apache-2.0
#include "train/trainer_config.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "train/gpu_memory.hpp"

namespace lm::train {

cost::MemoryPlan memory_plan(const TrainerConfig& config, i64 tp_rank, i64 pp_rank) {
    const cost::StepShape step{config.micro_batch, config.model.seq_length, config.n_micro_batches};
    cost::MemoryPlan plan = cost::plan_memory(config.model, config.parallel, step, config.precision,
                                              config.processor(), tp_rank, pp_rank);
    plan.save_buffer = std::min(
        config.save_buffer,
        cost::checkpoint_share(config.model, config.parallel, config.precision, tp_rank, pp_rank));
    return plan;
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

}  // namespace lm::train
