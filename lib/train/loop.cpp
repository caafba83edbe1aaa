// SPDX-License-Identifier: Apache-2.0
#include "train/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cli/signals.hpp"
#include "device/op_times.hpp"
#include "io/file.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"
#include "train/changes.hpp"
#include "train/distributed_save.hpp"
#include "train/evaluation.hpp"
#include "train/gpu_memory.hpp"
#include "train/host_memory.hpp"
#include "train/open_device.hpp"
#include "train/plan_text.hpp"
#include "train/resume.hpp"
#include "train/rules.hpp"
#include "train/run_data.hpp"

namespace lm::train {
namespace {

LoopRules rules_of(const RunConfig& config, const data::DataSets& data) {
    const config::CheckpointFlags& checkpoints = config.checkpoints;
    const config::StoppingFlags& stopping = config.stopping;
    const bool benchmark = config.action.benchmark;
    const bool evaluates = config.validation.iters > 0 && !benchmark;
    LoopRules rules{.log_interval = config.logging.interval,
                    .eval_interval = config.validation.interval,
                    .evaluates = evaluates && !data.valid.empty(),
                    .tests = evaluates && !data.test.empty(),
                    .saves = !checkpoints.save.empty() && !benchmark,
                    .save_interval = checkpoints.save_interval,
                    .save_schedule = checkpoints.save_schedule.empty()
                                         ? std::vector<spec::SaveRange>{}
                                         : spec::parse_save_schedule(checkpoints.save_schedule),
                    .exit_interval = stopping.exit_interval,
                    .exit_iteration = stopping.exit_iteration,
                    .exit_samples = stopping.exit_samples,
                    .check_replicas = config.check_replicas,
                    .skip = parse_skip_ranges(stopping.skip_ranges)};
    if (stopping.exit_duration_min) rules.exit_duration_s = *stopping.exit_duration_min * 60.0;
    return rules;
}

// The iterations behind the first in which --benchmark measures each operation; the others give the
// figures, since that costs time itself.
i64 timed_iterations(const RunConfig& config, const optim::Counters& start) {
    if (!config.action.benchmark) return 0;
    const i64 n_iterations = config.schedule.total_iterations() - start.iteration;
    return std::clamp<i64>((n_iterations - 1) / 2, 0, 3);
}

// The sign of a NaN means nothing.
double without_sign(double value) {
    return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

// The training of one rank, from the command line to the exit code. All ranks decide alike: by what
// they all know, and what they tell each other in situation().
class Run {
  public:
    // `training_data` is what checkpoints remember of the data, on rank 0.
    Run(const RunConfig& config, const data::DataSets& data, io::OrderedJson training_data,
        std::optional<ckpt::Checkpoint> checkpoint, comm::Group& world,
        comm::FlightRecorder& recorder, double quiet_s)
        : config_(config),
          training_data_(std::move(training_data)),
          world_(world),
          recorder_(recorder),
          rules_(rules_of(config, data)),
          device_(open_with_room(config.trainer, world)),
          trainer_(config.trainer, *device_, connect(config.trainer, *device_, world, quiet_s)),
          position_(start_together(std::move(checkpoint))),
          n_timed_(timed_iterations(config, position_.done)),
          loader_(*data.train, config.batch_options(), position_.done.samples, parallel().dp,
                  trainer_.grid().at.dp),
          report_(config, position_.done, is_first()),
          evaluation_(config, data, world, trainer_, report_),
          watchdog_(recorder, watchdog_options(quiet_s)) {
        if (config.trainer.cuda && is_first()) note("device: {}", device_->name());
        if (config.trainer.cuda) compare_with_driver(memory(), device_->name());
        trainer_.record_to(&recorder);
        report_.restore(position_.interval);
        if (rules_.saves) generation_ = claim_generation(world, config.checkpoints.save);
    }

    Exit go() {
        if (config_.schedule.finished(position_.done)) {
            note("the training is finished already, after iteration {}", position_.done.iteration);
            return Exit::done;
        }
        Stop stop = should_stop(rules_, situation());
        while (stop == Stop::no) {
            if (!skip()) iterate();
            recorder_.enter("log");
            if (dump_requested_.exchange(false)) dump();
            const Situation now = situation();
            stop = should_stop(rules_, now);
            if (should_log(rules_, now)) report_.log(position_.done, next_rate());
            if (should_check_replicas(rules_, now)) check_replicas();
            if (should_save(rules_, now)) save();
            const bool complete =
                (!should_evaluate(rules_, now) || evaluation_.validate(now.done)) &&
                (!should_test(rules_, now) || evaluation_.test(now.done));
            if (complete || stop != Stop::no) continue;
            stop = Stop::signal;
            if (rules_.saves && !should_save(rules_, now)) save();
        }
        return leave(stop);
    }

  private:
    bool is_first() const { return world_.rank() == 0; }
    const spec::ParallelConfig& parallel() const { return config_.trainer.parallel; }
    GpuMemory memory() { return gpu_memory(config_.trainer, trainer_.grid().at, *device_); }

    static std::unique_ptr<device::Device> open_with_room(const TrainerConfig& config,
                                                          comm::Group& world) {
        std::unique_ptr<device::Device> device = open_device(config, world);
        parallel::together(world, [&] {
            if (!config.cuda) return;
            require_room(config, parallel::coordinates_of(config.parallel, world.rank()), *device);
        });
        return device;
    }

    // The files of a checkpoint are not held for longer than it takes: they may be pruned.
    Position start_together(std::optional<ckpt::Checkpoint> checkpoint) {
        recorder_.enter("start");
        return start(config_, training_data_, std::move(checkpoint), world_, trainer_);
    }

    void iterate() {
        const bool timed = run_iterations_ >= 1 && run_iterations_ <= n_timed_;
        trainer_.measure(timed ? &report_.op_times() : nullptr);
        const Stopwatch watch;
        recorder_.step(position_.done.iteration + 1);
        const TrainingLog::Taken taken = next_taken();
        const double rate = next_rate();
        trainer_.set_seq_length(taken.seq_length);
        const StepResult result =
            trainer_.step([&]() -> const data::Batch& { return next_batch(taken.seq_length); },
                          n_micro_batches(config_.trainer, taken.global_batch), rate);
        const bool first = run_iterations_ == 0 && config_.trainer.cuda && is_first();
        if (first) note("{}", memory().str());
        check_finite(position_.done.iteration + 1, result);
        advance(result.updated);
        report_.add(position_.done, next_rate(), taken, result, watch.elapsed_s(), timed);
    }

    // What the next iteration takes.
    TrainingLog::Taken next_taken() const {
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
        const TrainingLog::Taken taken = next_taken();
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
             "--bf16, {}or resume from an earlier checkpoint with a lower --lr or other data",
             skipped_in_a_row_, result.loss_scale,
             config_.trainer.loss_scale.fixed ? "a lower --loss-scale, " : "");
    }

    // Nothing was changed by the step, but no later one would be better: the data and the weights
    // that made it are the same again. What to do is for people to decide.
    [[noreturn]] void stop_at_non_finite(i64 iteration, const StepResult& result) const {
        throw JointError(
            Exit::self_stopped,
            fmt::format("iteration {}: loss {} and gradient norm {} are not both finite: no weight "
                        "was changed: resume from an earlier checkpoint with a lower --lr or other "
                        "data",
                        iteration, without_sign(result.loss), without_sign(result.gradient_norm)));
    }

    double next_rate() const {
        return config_.schedule.rate(position_.stepped.samples, position_.stepped.tokens);
    }

    // The same on all ranks: a signal to any of them counts, and what rank 0 sees of files and
    // time.
    Situation situation() {
        const auto present = [this](const std::string& file) {
            return is_first() && !file.empty() && io::exists(file) ? 1.0 : 0.0;
        };
        std::array<double, 4> seen = {got_stop_signal(), present(config_.stopping.kill_switch),
                                      present(config_.stopping.save_switch),
                                      is_first() ? since_start_.elapsed_s() : 0.0};
        agree(seen);
        return {.done = position_.done,
                .run_iterations = run_iterations_,
                .elapsed_s = seen[3],
                .finished = config_.schedule.finished(position_.done),
                .stop_signal = seen[0] != 0,
                .kill_switch = seen[1] != 0,
                .save_switch = seen[2] != 0};
    }

    static double got_stop_signal() {
        return cli::stop_requested() != cli::StopRequest::none ? 1.0 : 0.0;
    }

    // The largest of all ranks.
    void agree(std::span<double> values) {
        world_.all_reduce({values.data(), DType::fp64, {static_cast<i64>(values.size())}},
                          comm::Reduction::max);
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

    void check_replicas() {
        recorder_.enter("check of replicas");
        trainer_.check_replicas();
    }

    // Tells where the rank is also while that waits for what does not come.
    comm::WatchdogOptions watchdog_options(double quiet_s) {
        return {.timeout_s = quiet_s,
                .dump_requested =
                    [this] {
                        const bool requested = cli::consume_dump_request();
                        if (requested) dump_requested_ = true;
                        return requested;
                    },
                .report =
                    [this](const std::string& line) { note("rank {}: {}", world_.rank(), line); }};
    }

    void save() {
        recorder_.enter("save");
        const Stopwatch watch;
        position_.interval = report_.unlogged();
        const ckpt::SaveResult saved = train::save_distributed(
            world_, generation_, save_info(config_, trainer_, position_, training_data_),
            trainer_.state());
        if (!is_first()) return;
        report_.saved(saved, watch.elapsed_s());
        if (!config_.stopping.save_switch.empty()) {
            std::error_code ignored;
            std::filesystem::remove(config_.stopping.save_switch, ignored);
        }
    }

    Exit leave(Stop stop) {
        if (run_iterations_ > 0 && skipped_in_a_row_ == run_iterations_) {
            note("no weight was changed: the gradients of all {} iterations were beyond fp16{}",
                 run_iterations_,
                 config_.trainer.loss_scale.fixed ? "; use a lower --loss-scale" : "");
        }
        if (config_.action.benchmark && is_first()) {
            report_.benchmark(trainer_, config_, *device_);
        }
        if (stop != Stop::signal) {
            const std::string why = stop_note(stop, config_.stopping, position_.done.iteration,
                                              config_.schedule.total_iterations());
            if (!why.empty()) note("{}", why);
            return exit_code(stop);
        }
        const char* const own = cli::stop_signal_name();
        const std::string name = own != nullptr ? own : "a signal to another rank";
        // 75 promises that the state was saved.
        if (!rules_.saves) {
            throw JointError(Exit::failure,
                             fmt::format("{}: stopped after iteration {}: nothing was saved, there "
                                         "is no --save",
                                         name, position_.done.iteration));
        }
        note("{}: {}", name,
             stopped_text(position_.done.iteration, config_.schedule.total_iterations()));
        return exit_code(stop);
    }

    const RunConfig& config_;
    const io::OrderedJson training_data_;
    comm::Group& world_;
    comm::FlightRecorder& recorder_;
    LoopRules rules_;
    std::unique_ptr<device::Device> device_;
    Trainer trainer_;
    Position position_;
    i64 n_timed_;
    data::Loader loader_;
    data::Batch truncated_;
    TrainingLog report_;
    Evaluation evaluation_;
    ckpt::Generation generation_;
    Stopwatch since_start_;
    i64 run_iterations_ = 0;
    i64 skipped_in_a_row_ = 0;
    std::atomic<bool> dump_requested_ = false;  // SIGUSR2, for the loop
    comm::Watchdog watchdog_;
};

}  // namespace

void catch_signals() {
    cli::install_stop_signals(cli::Sigterm::never_at_once);
    cli::install_dump_signal();
    cli::ignore_sigpipe();
}

Exit run(const RunConfig& config, comm::Group& world, comm::FlightRecorder& recorder,
         double quiet_s) {
    auto checkpoint = check_checkpoints(config, world);
    data::DataSets data;
    io::OrderedJson identities;
    parallel::together(world, [&] {
        if (world.rank() == 0) check_writable(config.checkpoints, config.logging);
        data = open_data(config);
        if (world.rank() == 0) identities = training_data(config);
        if (world.rank() == 0 && checkpoint) check_changes(config, identities, *checkpoint);
    });
    if (world.rank() == 0) std::fputs(describe_plan(config, data).c_str(), stderr);
    const i64 ranks_here = parallel::ranks_on_host(world);
    parallel::together(world, [&] { check_host_memory(config, ranks_here); });
    return Run(config, data, std::move(identities), std::move(checkpoint), world, recorder, quiet_s)
        .go();
}

}  // namespace lm::train
