// SPDX-License-Identifier: Apache-2.0
// lm-estimate batch: the steps of the batch-size ramp, and the node counts that can run it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/shape.hpp"
#include "figures.hpp"
#include "run_flags.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

struct Flags {
    config::TrainFlags train;
    i64 micro_batch = 1;  // micro_batch and seq_length are resolved from the flags
    std::optional<i64> seq_length;
    std::vector<i64> nodes;
    i64 gpus_per_node = 8;
    OutputFlags output;
};

// Returns the data-parallel sizes that divide the batch into whole micro-batches.
std::vector<i64> data_parallel_sizes(i64 batch, i64 micro_batch) {
    std::vector<i64> sizes;
    if (batch % micro_batch != 0) return sizes;
    const i64 n = batch / micro_batch;
    for (i64 size = 1; size <= n / size; ++size) {
        if (n % size != 0) continue;
        sizes.push_back(size);
        if (size != n / size) sizes.push_back(n / size);
    }
    std::ranges::sort(sizes);
    return sizes;
}

std::vector<Value> row_of_step(const Flags& flags, const spec::RampStep& step) {
    const Value sizes = data_parallel_sizes(step.batch, flags.micro_batch);
    if (!flags.seq_length) {
        return {step.batch, step.first_iteration, step.n_iterations, step.consumed_before, sizes};
    }
    const i64 tokens = checked_mul(step.consumed_before, *flags.seq_length);
    return {step.batch, step.first_iteration, step.n_iterations, step.consumed_before, tokens,
            sizes};
}

void add_steps(Printout& printout, const Flags& flags, const std::vector<spec::RampStep>& steps) {
    std::vector<Column> columns = {
        {"batch", "batch", Unit::count,
         "START + floor(consumed / (SAMPLES / ((N - START) / INCREMENT))) x INCREMENT, N once "
         "consumed > SAMPLES; Megatron, microbatches.py"},
        {"first_iteration", "first iteration", Unit::count, ""},
        {"iterations", "iterations", Unit::count,
         "the iterations whose consumed samples give this batch"},
        {"samples_before", "samples before", Unit::count, "the sum of all previous batches"}};
    if (flags.seq_length) {
        columns.push_back(
            {"tokens_before", "tokens before", Unit::count, "samples x --seq-length"});
    }
    columns.push_back({"data_parallel", "data-parallel sizes", Unit::plain,
                       "divisors of batch / --micro-batch-size"});
    std::vector<std::vector<Value>> rows;
    for (const spec::RampStep& step : steps) rows.push_back(row_of_step(flags, step));
    printout.table("step", std::move(columns), std::move(rows));
}

// Returns the first step such that `unit` divides its batch and the batches of all later steps, or
// nullptr when there is no such step.
const spec::RampStep* first_working(const std::vector<spec::RampStep>& steps, i64 unit) {
    const spec::RampStep* first = nullptr;
    for (const spec::RampStep& step : steps) {
        if (step.batch % unit != 0) {
            first = nullptr;
        } else if (!first) {
            first = &step;
        }
    }
    return first;
}

std::string verdict_of(const Flags& flags, const std::vector<spec::RampStep>& steps, i64 gpus) {
    const i64 model_ranks = config::sizes_of(flags.train.parallel).ranks_per_replica();
    if (gpus % model_ranks != 0) return fmt::format("no: one model needs {} GPUs", model_ranks);
    const i64 unit = flags.micro_batch * (gpus / model_ranks);
    const spec::RampStep* step = first_working(steps, unit);
    if (!step) return fmt::format("no: {} is not a multiple of {}", steps.back().batch, unit);
    if (step == &steps.front()) return "yes";
    return fmt::format("from iteration {} on", step->first_iteration);
}

bool add_nodes(Printout& printout, const Flags& flags, const std::vector<spec::RampStep>& steps) {
    if (flags.nodes.empty()) return true;
    bool all_work = true;
    std::vector<std::vector<Value>> rows;
    for (const i64 nodes : flags.nodes) {
        check_at_least("--nodes", nodes, 1);
        const i64 gpus = checked_mul(nodes, flags.gpus_per_node);
        const i64 dp = gpus / config::sizes_of(flags.train.parallel).ranks_per_replica();
        const std::string verdict = verdict_of(flags, steps, gpus);
        all_work = all_work && verdict == "yes";
        rows.push_back({nodes, gpus, dp, verdict});
    }
    printout.table("nodes",
                   {{"nodes", "nodes", Unit::plain, ""},
                    {"gpus", "GPUs", Unit::plain, "nodes x --gpus-per-node"},
                    {"data_parallel", "data-parallel size", Unit::plain,
                     "GPUs / (tensor-parallel size x pipeline stages)"},
                    {"works", "works throughout", Unit::plain,
                     "every batch of the ramp is a multiple of micro-batch x data-parallel size"}},
                   std::move(rows));
    return all_work;
}

int run(Flags flags) {
    flags.train = resolve_flags(flags.train);
    flags.micro_batch = resolve_micro_batch(flags.train);
    flags.seq_length = config::seq_length_of(flags.train.model);
    check_at_least("--gpus-per-node", flags.gpus_per_node, 1);
    check_at_least("--tensor-model-parallel-size", flags.train.parallel.tensor.value, 1);
    check_at_least("--pipeline-model-parallel-size", flags.train.parallel.pipeline.value, 1);
    check_at_least("--seq-length", flags.seq_length, 1);
    const BatchSchedule schedule = resolve_schedule(flags.train, flags.seq_length.value_or(0));
    const std::vector<spec::RampStep> steps = resolve_steps(schedule.ramp, schedule.samples);
    Printout printout;
    add_steps(printout, flags, steps);
    const spec::RampStep& last = steps.back();
    std::vector<Figure> totals = {
        {"iterations", "iterations", Unit::count, last.first_iteration + last.n_iterations - 1,
         "the sum over all steps; an incomplete last batch is dropped, as in Megatron"},
        {"samples", "samples", Unit::count, last.consumed_after(), ""}};
    if (flags.seq_length) {
        totals.push_back({"tokens", "tokens", Unit::count,
                          checked_mul(last.consumed_after(), *flags.seq_length), ""});
    }
    printout.figures("total", std::move(totals));
    const bool all_work = add_nodes(printout, flags, steps);
    printout.print(flags.output);
    return static_cast<int>(all_work ? Exit::done : Exit::answer_is_no);
}

}  // namespace

void add_batch_verb(cli::Options& program) {
    const auto flags = std::make_shared<Flags>();
    cli::Options& options = program.verb(
        "batch", "list the batch-size ramp step by step, and the node counts that can run it",
        [flags] { return run(*flags); });
    options.examples(
        {"lm-estimate batch --global-batch-size 2048 --rampup-batch-size 32 32 6_000_000 \\\n    "
         "--micro-batch-size 2 --train-samples 220_000_000 --nodes 48 52"});
    options.group("Nodes");
    options.values("--nodes", &flags->nodes, "N",
                   "node counts to check; exit code 1 when one of them cannot run every batch");
    options.value("--gpus-per-node", &flags->gpus_per_node, "N", "GPUs in a node");
    add_run_options(
        options, flags->train,
        {"--model", "--seq-length", "--micro-batch-size", "--global-batch-size",
         "--rampup-batch-size", "--train-samples", "--train-iters", "--train-tokens",
         "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--deepspeed_config"});
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
