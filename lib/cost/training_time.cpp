// SPDX-License-Identifier: Apache-2.0
#include "cost/training_time.hpp"

#include <algorithm>

#include "base/types.hpp"
#include "cost/activation_plan.hpp"
#include "cost/formulas.hpp"

namespace lm::cost {
namespace {

// Returns the time per sample in a step of `batch` samples, relative to a full batch. The pipeline
// bubble is (PP - 1) / micro-batches of the step, divided by the chunks of the interleaved
// schedule.
double slowdown(const TrainingPlan& plan, i64 batch) {
    const auto step_length = [&](i64 b) {
        const i64 n = std::max<i64>(1, b / (plan.micro_batch * plan.data_parallel));
        return 1 + as_double(plan.parallel.pp - 1) / as_double(n * plan.parallel.n_chunks);
    };
    return step_length(batch) / step_length(plan.ramp.global_batch);
}

double iteration_s(const TrainingPlan& plan, i64 batch) {
    if (plan.simulated_s) return plan.simulated_s(batch);
    const i64 vocab = padded_vocab(plan.model, plan.parallel);
    return iteration_flops(plan.model, vocab, batch, plan.model.seq_length,
                           recomputed_share(plan.model, plan.parallel)) /
           plan.flops_per_s * slowdown(plan, batch);
}

}  // namespace

i64 n_iterations(const std::vector<spec::RampStep>& steps) {
    return steps.empty() ? 0 : steps.back().first_iteration + steps.back().n_iterations - 1;
}

TrainingTime training_time(const TrainingPlan& plan, const std::vector<spec::RampStep>& steps) {
    TrainingTime time;
    time.full_iteration_s = iteration_s(plan, plan.ramp.global_batch);
    for (const spec::RampStep& step : steps) {
        time.steps_s += iteration_s(plan, step.batch) * as_double(step.n_iterations);
    }
    if (plan.eval_interval) {
        // The forward pass is a third of a step. With recomputation of all layers, a step has two
        // forward passes, and each forward pass is a quarter of the step.
        const double forward_s =
            time.full_iteration_s / (3 + recomputed_share(plan.model, plan.parallel));
        time.evaluations_s = as_double(n_iterations(steps) / *plan.eval_interval) *
                             as_double(plan.eval_iters) * forward_s;
    }
    if (plan.save_interval) {
        time.saves_s = as_double(n_iterations(steps) / *plan.save_interval) * plan.save_s;
    }
    return time;
}

}  // namespace lm::cost
