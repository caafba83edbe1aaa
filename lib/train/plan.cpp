// SPDX-License-Identifier: Apache-2.0
#include "train/plan.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "base/units.hpp"
#include "optim/plan.hpp"
#include "spec/cost.hpp"

namespace lm::train {
namespace {

template <typename... Args>
void line(std::string_view what, fmt::format_string<Args...> format, Args&&... args) {
    const std::string text =
        fmt::format(" > {:<12} {}\n", what, fmt::format(format, std::forward<Args>(args)...));
    std::fputs(text.c_str(), stderr);
}

void print_model(const spec::ModelConfig& model, const spec::ParallelConfig& parallel) {
    const i64 total = spec::count_parameters(model).total();
    line("model", "{} parameters ({}): {} layers, hidden {}, {} heads, ffn {}, sequence {}", total,
         human_count(static_cast<double>(total)), model.n_layers, model.hidden, model.n_heads,
         model.ffn_hidden, model.seq_length);
    line("vocabulary", "{}, in memory {}", model.vocab_size, spec::padded_vocab(model, parallel));
}

void print_schedule(const RunConfig& config) {
    const optim::Counters& end = config.schedule.end();
    const optim::BatchRamp& ramp = config.schedule.ramp();
    line("training", "{} iterations, {} samples, {} tokens", end.iteration, end.samples,
         end.tokens);
    const auto stages = ramp.stages();
    const i64 micro = config.trainer.micro_batch;
    if (stages.size() > 1) {
        line("batch", "{} to {} in {} stages, micro-batch {}", stages.front().batch,
             ramp.global_batch(), stages.size(), micro);
    } else {
        line("batch", "{} samples, {} micro-batches of {}", ramp.global_batch(),
             ramp.global_batch() / micro, micro);
    }
    const optim::LearningRate& rate = config.schedule.learning_rate();
    line("learning rate", "{:.3E} after {:.0f} samples of warm-up, {:.3E} after {:.0f} samples",
         rate.max, rate.warmup_samples, rate.min, rate.decay_samples);
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
}

void print_data(const RunConfig& config, const data::DataSets& data) {
    const auto describe = [](std::string_view name, const data::SampleSource& source, i64 n) {
        for (const std::string& text : data::describe_use(name, source, n))
            line("data", "{}", text);
    };
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

void print_memory(const RunConfig& config) {
    const spec::MemoryPlan plan = memory_plan(config.trainer);
    line("memory", "{}: weights {}, gradients {}, optimizer {}, activations {}, workspace {}",
         human_size(plan.total()), human_size(plan.weights), human_size(plan.gradients),
         human_size(plan.optimizer), human_size(plan.activations), human_size(plan.workspace));
}

void print_checkpoints(const RunConfig& config) {
    const OutputFlags& output = config.output;
    if (output.save.empty()) return line("checkpoints", "none (no --save)");
    std::vector<spec::SaveRange> ranges;
    if (!output.save_schedule.empty()) ranges = spec::parse_save_schedule(output.save_schedule);
    if (output.save_interval) ranges = {{.interval = *output.save_interval, .until = 0}};
    const i64 saves =
        ranges.empty() ? 1 : spec::count_saves(ranges, config.schedule.total_iterations());
    const i64 each = spec::checkpoint_size(config.trainer.model, {}).total();
    line("checkpoints", "{} of {} each in {}, {} in all", saves, human_size(each), output.save,
         human_size(saves * each));
}

}  // namespace

void print_plan(const RunConfig& config, const data::DataSets& data) {
    print_model(config.trainer.model, config.trainer.parallel);
    print_schedule(config);
    if (config.output.dry_run) print_schedule_details(config);
    print_data(config, data);
    print_memory(config);
    print_checkpoints(config);
}

}  // namespace lm::train
