// SPDX-License-Identifier: Apache-2.0
#include "cost/training_time.hpp"

#include "cost/activation_plan.hpp"
#include "cost/formulas.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;
using namespace lm::cost;

namespace {

TrainingPlan plan_of(i64 pp, i64 start) {
    TrainingPlan plan;
    plan.model = {
        .n_layers = 12, .hidden = 768, .n_heads = 12, .seq_length = 1024, .vocab_size = 50257};
    plan.model.resolve();
    plan.parallel.pp = pp;
    plan.ramp = {.start = start, .increment = start, .samples = 64, .global_batch = 32};
    if (start == 0) plan.ramp = {.global_batch = 32};
    plan.flops_per_s = 1e14;
    return plan;
}

}  // namespace

TEST_CASE("steps of a constant batch take the operations of all iterations") {
    const TrainingPlan plan = plan_of(1, 0);
    const std::vector<RampStep> steps = ramp_steps(plan.ramp, 3200);
    const TrainingTime time = training_time(plan, steps);
    const i64 vocab = padded_vocab(plan.model, plan.parallel);
    CHECK(n_iterations(steps) == 100);
    CHECK(time.full_iteration_s ==
          Approx(iteration_flops(plan.model, vocab, 32, 1024, false) / 1e14));
    CHECK(time.steps_s == Approx(100 * time.full_iteration_s));
    CHECK(time.running_s() == Approx(time.steps_s));
    CHECK(n_iterations({}) == 0);
}

TEST_CASE("a smaller batch of the ramp has a larger pipeline bubble") {
    const TrainingPlan plan = plan_of(4, 8);
    const std::vector<RampStep> steps{{.batch = 8, .n_iterations = 1}};
    // 8 micro-batches and a bubble of 3, compared with 32 micro-batches and a bubble of 3.
    const TrainingTime time = training_time(plan, steps);
    CHECK(time.steps_s == Approx(time.full_iteration_s / 4 * ((1 + 3.0 / 8) / (1 + 3.0 / 32))));
}

TEST_CASE("evaluations compute the forward pass, and saves stop the training") {
    TrainingPlan plan = plan_of(1, 0);
    plan.eval_interval = 40;
    plan.eval_iters = 6;
    plan.save_interval = 30;
    plan.save_s = 5;
    const std::vector<RampStep> steps = ramp_steps(plan.ramp, 3200);
    TrainingTime time = training_time(plan, steps);
    CHECK(time.evaluations_s == Approx(2 * 6 * time.full_iteration_s / 3));
    CHECK(time.saves_s == Approx(15));
    CHECK(time.running_s() == Approx(time.steps_s + time.evaluations_s + 15));
    plan.parallel.recompute.granularity = Recompute::Granularity::full;
    time = training_time(plan, steps);
    CHECK(time.evaluations_s == Approx(2 * 6 * time.full_iteration_s / 4));
}

TEST_CASE("a block of recomputed layers adds the operations of these layers") {
    TrainingPlan plan = plan_of(4, 0);
    const std::vector<RampStep> steps = ramp_steps(plan.ramp, 3200);
    const double stored_s = training_time(plan, steps).full_iteration_s;
    // The first of the 3 layers of each stage.
    plan.parallel.recompute = {Recompute::Granularity::full, Recompute::Method::block, 1};
    CHECK(recomputed_share(plan.model, plan.parallel) == Approx(1.0 / 3));
    plan.eval_interval = 40;
    plan.eval_iters = 6;
    const TrainingTime time = training_time(plan, steps);
    CHECK(time.full_iteration_s == Approx(stored_s * (3 + 1.0 / 3) / 3));
    CHECK(time.evaluations_s == Approx(2 * 6 * stored_s / 3));
    plan.parallel.recompute.n_layers = 5;  // more than a stage has
    CHECK(recomputed_share(plan.model, plan.parallel) == 1);
    plan.parallel.recompute.granularity = Recompute::Granularity::selective;
    CHECK(recomputed_share(plan.model, plan.parallel) == 0);
}
