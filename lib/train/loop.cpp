// SPDX-License-Identifier: Apache-2.0
#include "train/loop.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cli/signals.hpp"
#include "cpu/cpu.hpp"
#include "device/op_times.hpp"
#include "io/file.hpp"
#include "train/plan.hpp"
#include "train/report.hpp"
#include "train/resume.hpp"
#include "train/rules.hpp"

namespace lm::train {
namespace {

LoopRules rules_of(const RunConfig& config, const data::DataSets& data) {
    const OutputFlags& output = config.output;
    const bool evaluates = output.eval_iters > 0 && !output.benchmark;
    LoopRules rules{.log_interval = output.log_interval,
                    .eval_interval = output.eval_interval,
                    .evaluates = evaluates && !data.valid.empty(),
                    .tests = evaluates && !data.test.empty(),
                    .saves = !output.save.empty() && !output.benchmark,
                    .save_interval = output.save_interval,
                    .save_schedule = output.save_schedule.empty()
                                         ? std::vector<spec::SaveRange>{}
                                         : spec::parse_save_schedule(output.save_schedule),
                    .exit_interval = output.exit_interval,
                    .exit_iteration = output.exit_iteration,
                    .exit_samples = output.exit_samples,
                    .skip = parse_skip_ranges(output.skip_ranges)};
    if (output.exit_duration_min) rules.exit_duration_s = *output.exit_duration_min * 60.0;
    return rules;
}

// The training of one process, from the command line to the exit code.
class Run {
  public:
    Run(const RunConfig& config, const data::DataSets& data)
        : config_(config),
          data_(data),
          rules_(rules_of(config, data)),
          device_(cpu::make_device(config.trainer.n_threads)),
          trainer_(config.trainer, *device_),
          position_(start(config, trainer_)),
          loader_(*data.train, config.batch, position_.done.samples),
          report_(config, position_.done) {
        report_.restore(position_.interval);
        if (rules_.saves) generation_ = ckpt::claim(config.output.save);
    }

    Exit go() {
        if (config_.schedule.finished(position_.done)) {
            note("the training is finished already, after iteration {}", position_.done.iteration);
            return Exit::done;
        }
        Stop stop = should_stop(rules_, situation());
        while (stop == Stop::no) {
            if (!skip()) iterate();
            if (cli::take_dump_request()) dump();
            const Situation now = situation();
            stop = should_stop(rules_, now);
            if (should_log(rules_, now)) report_.log(position_.done, next_rate());
            if (should_save(rules_, now)) save();
            const bool complete = (!should_evaluate(rules_, now) || validate()) &&
                                  (!should_test(rules_, now) || test());
            if (complete || stop != Stop::no) continue;
            stop = Stop::signal;
            if (rules_.saves && !should_save(rules_, now)) save();
        }
        return leave(stop);
    }

  private:
    void iterate() {
        if (config_.output.benchmark && run_iterations_ == 1) trainer_.measure(&report_.op_times());
        const Stopwatch watch;
        const Report::Taken taken = next_taken();
        const double rate = next_rate();
        trainer_.set_seq_length(taken.seq_length);
        const StepResult result =
            trainer_.step([&]() -> const data::Batch& { return next_batch(taken.seq_length); },
                          taken.global_batch / config_.trainer.micro_batch, rate);
        check_finite(position_.done.iteration + 1, result);
        advance(result.updated);
        report_.add(position_.done, next_rate(), taken, result, watch.elapsed_s());
    }

    // What the next iteration takes.
    Report::Taken next_taken() const {
        return {config_.schedule.batch(position_.done),
                config_.schedule.seq_length(position_.done)};
    }

    const data::Batch& next_batch(i64 seq_length) {
        const data::Batch& full = loader_.next();
        if (seq_length == full.seq_length) return full;
        data::truncate(full, seq_length, truncated_);
        return truncated_;
    }

    // A batch was consumed. As in Megatron, the learning rate does not go on at a step that was not
    // made because fp16 gradients overflowed.
    void advance(bool updated = true) {
        const optim::Counters before = position_.done;
        position_.done = config_.schedule.next(before);
        ++run_iterations_;
        if (!updated) return;
        position_.stepped.samples += position_.done.samples - before.samples;
        position_.stepped.tokens += position_.done.tokens - before.tokens;
        ++position_.stepped.iteration;
    }

    // Takes the next iteration's batch without training on it, when the flags say so. It counts
    // like any other, and the learning rate goes on.
    bool skip() {
        const IterationRange* range = skipped_range(rules_, position_.done.iteration + 1);
        if (range == nullptr) return false;
        const Report::Taken taken = next_taken();
        advance();
        loader_.seek(position_.done.samples);
        report_.skipped(position_.done, next_rate(), taken);
        if (position_.done.iteration == range->last) {
            note(
                "iterations {} to {} were skipped, up to sample {}, as "
                "--skip-train-iteration-range says",
                range->first, range->last, position_.done.samples);
        }
        return true;
    }

    // Overflow of fp16 gradients is cured by the loss scale, unless it goes on and on; anything
    // else that is not finite ends the training.
    void check_finite(i64 iteration, const StepResult& result) {
        skipped_in_a_row_ = result.updated ? 0 : skipped_in_a_row_ + 1;
        if (result.updated) return;
        const bool fp16 = config_.trainer.precision.weights == DType::fp16;
        if (!fp16 || !std::isfinite(result.loss)) stop_at_non_finite(iteration, result);
        if (skipped_in_a_row_ < most_skipped_in_a_row) return;
        fail(Exit::self_stopped, fmt::format("iteration {}", iteration),
             "{} steps in a row had gradients beyond fp16, at last with a loss scale of {}: use "
             "--bf16, or resume from an earlier checkpoint with a lower --lr or other data",
             skipped_in_a_row_, result.loss_scale);
    }

    // Nothing was changed by the step, but no later one would be better: the data and the weights
    // that made it are the same again. What to do is for people to decide.
    [[noreturn]] void stop_at_non_finite(i64 iteration, const StepResult& result) const {
        fail(Exit::self_stopped, fmt::format("iteration {}", iteration),
             "loss {} and gradient norm {} are not both finite: no weight was changed: resume from "
             "an earlier checkpoint with a lower --lr or other data",
             result.loss, result.gradient_norm);
    }

    double next_rate() const {
        return config_.schedule.rate(position_.stepped.samples, position_.stepped.tokens);
    }

    Situation situation() const {
        const auto present = [](const std::string& file) {
            return !file.empty() && io::exists(file);
        };
        return {.done = position_.done,
                .run_iterations = run_iterations_,
                .elapsed_s = since_start_.elapsed_s(),
                .finished = config_.schedule.finished(position_.done),
                .stop_signal = cli::stop_requested() != cli::StopRequest::none,
                .kill_switch = present(config_.output.kill_switch),
                .save_switch = present(config_.output.save_switch)};
    }

    // SIGUSR2: where the run is, and on.
    void dump() const {
        note(
            "SIGUSR2: after iteration {} of {}: {} samples, {} tokens, optimizer step {}, {} in "
            "this run",
            position_.done.iteration, config_.schedule.total_iterations(), position_.done.samples,
            position_.done.tokens, trainer_.optimizer_step(),
            human_duration(since_start_.elapsed_s()));
    }

    void save() {
        const Stopwatch watch;
        position_.interval = report_.unlogged();
        const ckpt::SaveResult saved =
            ckpt::save(generation_, save_info(config_, trainer_, position_), trainer_.state());
        report_.saved(saved, watch.elapsed_s());
        if (!config_.output.save_switch.empty()) {
            std::error_code ignored;
            std::filesystem::remove(config_.output.save_switch, ignored);
        }
    }

    bool validate() {
        return evaluate(data_.valid, first_validation_sample(),
                        fmt::format("iteration {}", position_.done.iteration));
    }

    bool test() { return evaluate(data_.test, 0, "the end of training for test data"); }

    // False when a signal asked to stop in the middle: the rest is left out.
    bool evaluate(const std::vector<data::NamedSource>& sets, i64 first_sample,
                  const std::string& when) {
        struct Stopped {};
        const i64 n_micro_batches = config_.validation_samples / config_.trainer.micro_batch;
        trainer_.set_seq_length(config_.trainer.model.seq_length);
        for (const data::NamedSource& set : sets) {
            const Stopwatch watch;
            data::Loader loader(*set.source, config_.batch, first_sample);
            const auto next = [&loader]() -> const data::Batch& {
                if (cli::stop_requested() != cli::StopRequest::none) throw Stopped{};
                return loader.next();
            };
            try {
                const double loss = trainer_.evaluate(next, n_micro_batches);
                report_.validation(set.name, when, position_.done, loss, config_.validation_samples,
                                   watch.elapsed_s());
            } catch (const Stopped&) {
                return false;
            }
        }
        return true;
    }

    // The same samples each time, so that the points of a run compare; Megatron goes on through the
    // set, and its orders are followed in this too.
    i64 first_validation_sample() const {
        if (config_.data.order == data::DataOrder::stateless) return 0;
        const i64 earlier = (position_.done.iteration - 1) / config_.output.eval_interval;
        return earlier * config_.validation_samples;
    }

    Exit leave(Stop stop) {
        if (config_.output.benchmark) report_.benchmark(trainer_, config_);
        if (stop != Stop::signal) return exit_code(stop);
        // 75 promises that the state was saved.
        if (!rules_.saves) {
            run_error(cli::stop_signal_name(),
                      "stopped after iteration {}: nothing was saved, there is no --save",
                      position_.done.iteration);
        }
        note("{}: stopped after iteration {}", cli::stop_signal_name(), position_.done.iteration);
        return exit_code(stop);
    }

    const RunConfig& config_;
    const data::DataSets& data_;
    LoopRules rules_;
    std::unique_ptr<device::Device> device_;
    Trainer trainer_;
    Position position_;
    data::Loader loader_;
    data::Batch truncated_;
    Report report_;
    ckpt::Generation generation_;
    Stopwatch since_start_;
    i64 run_iterations_ = 0;
    i64 skipped_in_a_row_ = 0;
};

}  // namespace

Exit run(const RunConfig& config) {
    // First of all: what comes before the first iteration can take minutes.
    cli::install_stop_signals();
    cli::install_dump_signal();
    cli::ignore_sigpipe();
    check_checkpoints(config);
    check_writable(config.output);
    const data::DataSets data = open_data(config);
    print_plan(config, data);
    return Run(config, data).go();
}

}  // namespace lm::train
