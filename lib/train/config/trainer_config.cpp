// SPDX-License-Identifier: Apache-2.0
#include "train/config/trainer_config.hpp"

#include <algorithm>

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

}  // namespace lm::train
