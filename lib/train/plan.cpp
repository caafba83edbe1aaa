// SPDX-License-Identifier: Apache-2.0
#include "train/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ranges>

#include "base/units.hpp"
#include "optim/plan.hpp"
#include "spec/cost.hpp"
#include "spec/nccl_memory.hpp"
#include "train/layout_plan.hpp"
#include "train/rules.hpp"

namespace lm::train {
namespace {

template <typename... Args>
void line(std::string_view what, fmt::format_string<Args...> format, Args&&... args) {
    const std::string text =
        fmt::format(" > {:<12} {}\n", what, fmt::format(format, std::forward<Args>(args)...));
    std::fputs(text.c_str(), stderr);
}

// "rope positions, RMSNorm, swiglu, 8 key-value groups, head of its own, no biases"
std::string kind_text(const spec::ModelConfig& model) {
    std::string text = fmt::format("{} positions, {}, {}", name_of(model.position),
                                   name_of(model.normalization), name_of(model.activation));
    if (model.n_groups != model.n_heads) {
        text +=
            fmt::format(", {} key-value group{}", model.n_groups, model.n_groups == 1 ? "" : "s");
    }
    if (model.embedding_norm) text += ", embedding norm";
    text += model.untied_head ? ", head of its own" : ", tied head";
    if (!model.linear_bias) text += ", no biases";
    return text;
}

void print_model(const spec::ModelConfig& model, const spec::ParallelConfig& parallel) {
    const i64 total = spec::count_parameters(model).total();
    line("model", "{} parameters ({}): {} layers, hidden {}, {} heads, ffn {}, sequence {}", total,
         human_count(static_cast<double>(total)), model.n_layers, model.hidden, model.n_heads,
         model.ffn_hidden, model.seq_length);
    line("architecture", "{}", kind_text(model));
    line("vocabulary", "{}, in memory {}", model.vocab_size, spec::padded_vocab(model, parallel));
}

void print_curriculum(const optim::Schedule& schedule) {
    if (!schedule.curriculum()) return;
    i64 full = 1;  // the first iteration of the final length
    for (i64 step = i64{1} << 40; step > 0; step /= 2) {
        if (!schedule.curriculum()->finished(full + step - 1)) full += step;
    }
    const i64 reached = std::min(full, schedule.total_iterations() + 1);
    line("curriculum",
         "{}: sequences of {} tokens at first, {} from iteration {} on, after {} tokens",
         name_of(schedule.curriculum()->kind), schedule.seq_length({}),
         schedule.seq_length({.iteration = reached - 1}), reached,
         schedule.after(reached - 1).tokens);
}

void print_schedule(const RunConfig& config) {
    const optim::Counters& end = config.schedule.end();
    const optim::BatchRamp& ramp = config.schedule.ramp();
    line("training", "{} iterations, {} samples, {} tokens", end.iteration, end.samples,
         end.tokens);
    const auto stages = ramp.stages();
    const i64 micro = config.trainer.micro_batch;
    const i64 dp = config.trainer.parallel.dp;
    if (stages.size() > 1) {
        line("batch", "{} to {} in {} stages, micro-batch {}", stages.front().batch,
             ramp.global_batch(), stages.size(), micro);
    } else {
        line("batch", "{} samples, {} micro-batches of {}{}", ramp.global_batch(),
             ramp.global_batch() / (micro * dp), micro, dp > 1 ? " on each replica" : "");
    }
    const optim::LearningRate& rate = config.schedule.learning_rate();
    line("learning rate", "{:.3E} after {:.0f} samples of warm-up, {:.3E} after {:.0f} samples",
         rate.max, rate.warmup_samples, rate.min, rate.decay_samples);
    print_curriculum(config.schedule);
}

void print_ranks(const RunConfig& config) {
    const spec::ParallelConfig& p = config.trainer.parallel;
    if (p.tp * p.pp * p.dp == 1) return;
    std::string layers;
    if (p.pp > 1) {
        i64 least = config.trainer.model.n_layers;
        i64 most = 0;
        for (i64 stage = 0; stage < p.pp; ++stage) {
            const i64 n = spec::stage_layers(config.trainer.model, p, stage);
            least = std::min(least, n);
            most = std::max(most, n);
        }
        layers = least == most ? fmt::format("; {} layers in each stage", most)
                               : fmt::format("; {} to {} layers in a stage", least, most);
    }
    line("ranks", "{} = {} tensor x {} pipeline x {} data{}", p.tp * p.pp * p.dp, p.tp, p.pp, p.dp,
         layers);
    if (!config.output.dry_run) return;
    for (const LayoutLine& each : describe_layout(config)) line(each.what, "{}", each.text);
}

// What --dry-run says on top: every stage of the ramp, and the rate where it matters.
void print_schedule_details(const RunConfig& config) {
    const optim::Schedule& schedule = config.schedule;
    for (const std::string& text : optim::describe_ramp(schedule)) line("ramp", "{}", text);
    std::string sizes;
    for (const i64 size :
         optim::fitting_dp_sizes(schedule.ramp(), config.trainer.micro_batch, 4096)) {
        sizes += fmt::format(" {}", size);
    }
    line("ranks", "data-parallel sizes that fit every batch:{}", sizes);
    for (const optim::RatePoint& point : optim::key_rates(schedule)) {
        line("rate", "{:.3E} at the {}: iteration {}, {} samples", point.rate, point.what,
             point.done.iteration, point.done.samples);
    }
    for (const IterationRange& range : parse_skip_ranges(config.output.skip_ranges)) {
        line("skipped", "iterations {} to {}: their samples are taken, not trained on", range.first,
             range.last);
    }
}

void print_data(const RunConfig& config, const data::DataSets& data) {
    const auto describe = [](std::string_view name, const data::SampleSource& source, i64 n) {
        for (const std::string& text : data::describe_use(name, source, n))
            line("data", "{}", text);
    };
    if (!data.train) return;  // a plan that goes on without
    describe("train", *data.train, config.schedule.end().samples);
    for (const data::NamedSource& set : data.valid) {
        describe(set.name, *set.source, config.validation_samples);
    }
    for (const data::NamedSource& set : data.test) {
        describe(set.name, *set.source, config.validation_samples);
    }
    if (!data.valid.empty()) {
        line("validation", "{} samples of each set every {} iterations", config.validation_samples,
             config.output.eval_interval);
    }
    if (!data.test.empty()) {
        line("test", "{} samples of each set at the end", config.validation_samples);
    }
}

// Of the pipeline stage that needs most.
spec::MemoryPlan largest_memory_plan(const RunConfig& config) {
    const TrainerConfig& trainer = config.trainer;
    const spec::StepShape step{
        trainer.micro_batch, trainer.model.seq_length,
        config.schedule.ramp().global_batch() / (trainer.micro_batch * trainer.parallel.dp)};
    spec::MemoryPlan largest;
    for (i64 stage = 0; stage < trainer.parallel.pp; ++stage) {
        const spec::MemoryPlan plan = spec::plan_memory(
            trainer.model, trainer.parallel, step, config.precision, trainer.processor(), 0, stage);
        if (plan.total() > largest.total()) largest = plan;
    }
    return largest;
}

void print_memory(const RunConfig& config) {
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    const i64 ranks = parallel.tp * parallel.pp * parallel.dp;
    const spec::MemoryPlan plan = largest_memory_plan(config);
    const auto& data = config.trainer.data_parallel;
    const i64 nccl =
        config.trainer.cuda
            ? spec::nccl_bytes(parallel, 0, data.overlap_grad_reduce || data.overlap_param_gather)
            : 0;
    line("memory", "{}{}: weights {}, gradients {}, optimizer {}, activations {}, workspace {}{}",
         human_size(plan.total()), ranks > 1 ? " on the fullest rank" : "",
         human_size(plan.weights), human_size(plan.gradients), human_size(plan.optimizer),
         human_size(plan.activations), human_size(plan.workspace),
         nccl > 0 ? fmt::format("; NCCL about {} besides", human_size(nccl)) : "");
}

// Where the schedule or a flag ends the run, whichever comes first.
i64 last_iteration(const RunConfig& config) {
    const OutputFlags& output = config.output;
    const i64 total = config.schedule.total_iterations();
    const i64 last = std::min(total, output.exit_iteration.value_or(total));
    if (!output.exit_samples) return last;
    const auto iterations = std::views::iota(i64{1}, std::max<i64>(last, 1));
    return *std::ranges::partition_point(iterations, [&](i64 iteration) {
        return config.schedule.after(iteration).samples < *output.exit_samples;
    });
}

void print_checkpoints(const RunConfig& config) {
    const OutputFlags& output = config.output;
    if (output.save.empty()) return line("checkpoints", "none (no --save)");
    std::vector<spec::SaveRange> ranges;
    if (!output.save_schedule.empty()) ranges = spec::parse_save_schedule(output.save_schedule);
    if (output.save_interval) ranges = {{.interval = *output.save_interval, .until = 0}};
    const i64 saves = spec::count_saves(ranges, last_iteration(config));
    const i64 each = spec::checkpoint_size(config.trainer.model, config.precision).total();
    line("checkpoints", "{} of {} each in {}, {} in all", saves, human_size(each), output.save,
         human_size(saves * each));
}

}  // namespace

void print_plan(const RunConfig& config, const data::DataSets& data) {
    print_model(config.trainer.model, config.trainer.parallel);
    print_ranks(config);
    print_schedule(config);
    if (config.output.dry_run) print_schedule_details(config);
    print_data(config, data);
    print_memory(config);
    print_checkpoints(config);
}

}  // namespace lm::train
