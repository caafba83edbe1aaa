// SPDX-License-Identifier: Apache-2.0
#include "train/log/training_log.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/printable.hpp"
#include "base/problem_list.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"
#include "cli/terminal.hpp"
#include "cost/activation_plan.hpp"
#include "cost/formulas.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/lines.hpp"
#include "io/path.hpp"
#include "metrics/record.hpp"
#include "train/log/straggler.hpp"

namespace lm::train {
namespace {

bool is_megatron_lm(const config::LoggingFlags& flags) {
    return value_in(metrics::log_formats, std::string_view(flags.format)) ==
           metrics::LogFormat::megatron_lm;
}

metrics::TensorBoardOptions tensorboard_options(const RunConfig& config,
                                                const spec::Counters& start) {
    metrics::TensorBoardOptions options{.directory = config.logging.tensorboard_dir,
                                        .queue_size = config.logging.tensorboard_queue_size,
                                        .batch_size = config.logging.batch_size,
                                        .validation_ppl = config.logging.validation_ppl,
                                        .timers = config.logging.timers,
                                        .megatron_lm = is_megatron_lm(config.logging),
                                        .dp_size = config.trainer.parallel.dp};
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    options.world_size = parallel.n_ranks();
    if (start.iteration > 0) {
        options.resume = {start.iteration + 1, start.samples + 1, start.tokens + 1};
    }
    options.gigaflos_per_sample = metrics::gigaflos_per_sample(config.trainer.model);
    return options;
}

metrics::RunOrigin origin_of_job() {
    const char* const nodes = environment_of_process("SLURM_JOB_NODELIST");
    return {.job = slurm_job(), .nodes = nodes == nullptr ? "" : nodes, .generation = {}};
}

// Opens the file at `path` to append to it, and runs `write`; does nothing if `path` is empty.
// Ignores an error of writing, because the program also prints the error of the start to stderr.
void append_to(const std::string& path,
               const std::function<void(metrics::LineFile& file)>& write) noexcept {
    if (path.empty()) return;
    try {
        metrics::LineFile file = metrics::LineFile::open(path);
        write(file);
    } catch (const std::exception&) {
    }
}

}  // namespace

void TrainingLog::make_directories() const {
    if (!is_rank0_) return;
    for (const std::string& file : {config_.logging.json, config_.logging.file}) {
        if (io::is_below(file, config_.checkpoints.save)) io::make_directories(io::parent_of(file));
    }
}

void TrainingLog::open_files() {
    if (!is_rank0_) return;
    const config::LoggingFlags& logging = config_.logging;
    origin_ = origin_of_job();
    if (!logging.json.empty()) json_file_ = metrics::LineFile::open(logging.json);
    if (logging.file.empty()) return;
    log_file_ = metrics::LineFile::open(logging.file);
    const auto early = set_first_log_copy([this](Severity severity, std::string_view message) {
        write_to_file(fmt::format("lm-train: {}: {}", name_of(severity), printable(message)),
                      unix_time_s());
    });
    for (const EarlyMessage& message : early) {
        write_to_file(
            fmt::format("lm-train: {}: {}", name_of(message.severity), printable(message.text)),
            message.unix_time_s);
    }
}

void TrainingLog::open_tensorboard(const spec::Counters& start) {
    if (!is_rank0_ || config_.logging.tensorboard_dir.empty()) return;
    tensorboard_.reset();  // writes its queue
    tensorboard_ = metrics::TensorBoard::open(tensorboard_options(config_, start));
}

TrainingLog::~TrainingLog() {
    if (log_file_) set_log_copy(nullptr);
}

void TrainingLog::write_to_file(std::string_view lines, double unix_s) {
    if (!log_file_) return;
    const std::string time = iso_time(static_cast<i64>(unix_s));
    for (const std::string_view line : io::lines_of(lines))
        log_file_->write(fmt::format("{} {}", time, printable(line)));
}

metrics::StepRecord TrainingLog::record(const spec::Counters& done, double rate) const {
    const bool curriculum = config_.schedule.curriculum().has_value();
    return {.iteration = done.iteration,
            .total_iterations = config_.schedule.total_iterations(),
            .consumed_samples = done.samples,
            .consumed_tokens = done.tokens,
            .learning_rate = rate,
            .global_batch = last_.global_batch,
            .loss_scale = config_.trainer.precision.weights == DType::fp16
                              ? std::optional(loss_scale_)
                              : std::nullopt,
            .grad_norm = last_norm_,
            .num_zeros = num_zeros_,
            .params_norm = params_norm_,
            .seq_length = curriculum ? std::optional(last_.seq_length) : std::nullopt,
            .unix_time_s = unix_time_s()};
}

void TrainingLog::add(const spec::Counters& done, double rate, const BatchSize& batch,
                      const StepResult& result, double elapsed_s) {
    last_norm_.reset();
    if (result.finite) last_norm_ = result.gradient_norm;
    loss_scale_ = result.loss_scale;
    last_ = batch;
    const spec::ModelConfig& model = config_.trainer.model;
    const spec::ParallelConfig& parallel = config_.trainer.parallel;
    const i64 tokens = batch.global_batch * batch.seq_length;
    const auto n_ranks = static_cast<double>(parallel.n_ranks());
    interval_.add({.loss = result.loss,
                   .stepped = result.finite,
                   .finite = result.finite || result.overflow,
                   .samples = batch.global_batch,
                   .tokens = tokens,
                   .elapsed_s = elapsed_s,
                   .flops = cost::iteration_flops(model, spec::padded_vocab(model, parallel),
                                                  batch.global_batch, batch.seq_length,
                                                  cost::recomputed_share(model, parallel)) /
                            n_ranks,
                   .model_flops = cost::model_flops_per_token(model, batch.seq_length) *
                                  static_cast<double>(tokens) / n_ranks});
    if (tensorboard_) {
        metrics::StepRecord step = record(done, rate);
        step.loss = result.loss;
        tensorboard_->iteration(step);
    }
    if (!std::exchange(has_iteration_, true)) log_first(done, rate);
}

void TrainingLog::skipped(const spec::Counters& done, double rate, const BatchSize& batch,
                          bool finite) {
    last_norm_.reset();
    last_ = batch;
    interval_.add({.stepped = false, .finite = finite});
    if (tensorboard_) tensorboard_->iteration(record(done, rate));
}

void TrainingLog::print(const std::string& lines) {
    // The training continues when its log cannot be written.
    try {
        if (is_rank0_ && stdout_works_) {
            cli::set_status_line("");
            const auto width = static_cast<size_t>(cli::terminal_width(STDOUT_FILENO, 0));
            cli::write_stdout(cli::with_short_rules(lines, width) + "\n");
            cli::flush_stdout();
        }
    } catch (const Error& error) {
        stdout_works_ = false;
        warn("{}: no further log lines are written to stdout", error.what());
    }
    write_to_file(lines, unix_time_s());
}

std::string TrainingLog::line_of(const metrics::StepRecord& step) const {
    if (!is_megatron_lm(config_.logging)) return metrics::log_line(step);
    return metrics::megatron_lm_line(step, config_.logging.throughput);
}

// --log-format megatron-lm: prints a line for the first iteration of the run. The next line
// contains that iteration, too.
void TrainingLog::log_first(const spec::Counters& done, double rate) {
    const bool has_line = done.iteration % config_.logging.interval == 0 ||
                          done.iteration == config_.schedule.total_iterations();
    if (!is_megatron_lm(config_.logging) || has_line) return;
    metrics::StepRecord step = record(done, rate);
    metrics::Interval interval = interval_;  // continues until the next log()
    interval.finish(step, peak_flops_);
    print(line_of(step));
}

void TrainingLog::log(const spec::Counters& done, double rate) {
    metrics::StepRecord step = record(done, rate);
    interval_.finish(step, peak_flops_);
    step.save_s = std::exchange(save_s_, std::nullopt);
    step.save_blocked_s = std::exchange(save_blocked_s_, std::nullopt);
    print(line_of(step));
    if (json_file_) json_file_->write(metrics::to_json(step));
    if (tensorboard_) tensorboard_->interval(step);
}

void TrainingLog::validation(const std::string& name, const std::string& when,
                             const spec::Counters& done, double loss, i64 n_samples,
                             double elapsed_s) {
    const metrics::ValidationRecord result{.name = name,
                                           .when = when,
                                           .iteration = done.iteration,
                                           .consumed_samples = done.samples,
                                           .consumed_tokens = done.tokens,
                                           .loss = loss,
                                           .n_tokens = n_samples * config_.trainer.model.seq_length,
                                           .elapsed_s = elapsed_s,
                                           .unix_time_s = unix_time_s()};
    print(metrics::validation_block(result));
    if (json_file_) json_file_->write(metrics::to_json(result));
    if (tensorboard_) tensorboard_->validation(result);
}

void TrainingLog::phases(i64 iteration, const PhaseSpread& spread) {
    if (config_.logging.timing_level > 0) print(phase_lines(spread));
    if (!is_rank0_ || !config_.logging.timers) return;
    const PhaseTimes::Seconds& seconds = spread.mean;
    io::OrderedJson json = {{"kind", "phases"}, {"iteration", iteration}};
    for (size_t phase = 0; phase < n_phases; ++phase) {
        const std::string name(name_of(static_cast<StepPhase>(phase)));
        json[name + "_s"] = seconds[phase];
        if (tensorboard_) tensorboard_->timer(iteration, name, seconds[phase]);
    }
    event(std::move(json));
}

void TrainingLog::claimed(const std::string& run_id, i64 generation) {
    run_id_ = run_id;
    origin_.generation = generation;
}

void TrainingLog::started(const spec::Counters& at, i64 n_ranks) {
    io::OrderedJson fields{{"iteration", at.iteration},
                           {"total_iterations", config_.schedule.total_iterations()},
                           {"ranks", n_ranks},
                           {"host", host_name()},
                           {"elapsed_s", since_start_.elapsed_s()}};
    if (!run_id_.empty()) fields["run_id"] = run_id_;
    run_event("start", fields);
}

void TrainingLog::resumed(const spec::Counters& at) {
    run_event("resume", {{"iteration", at.iteration}, {"consumed_samples", at.samples}});
}

void TrainingLog::stopped(i64 iteration, Exit code, const std::string& reason) {
    run_event(
        "stop",
        {{"iteration", iteration}, {"exit_code", static_cast<int>(code)}, {"reason", reason}});
}

void TrainingLog::failed(const Error& error) noexcept {
    try {
        if (!log_file_ && !json_file_) open_files();
        for (const std::string_view problem : problems_in(error.what())) {
            write_to_file(fmt::format("lm-train: {}", printable(problem)), unix_time_s());
        }
        run_event("error",
                  {{"exit_code", static_cast<int>(error.code())}, {"reason", error.what()}});
    } catch (const std::exception&) {
        // The program also prints the error of the run to stderr.
    }
}

void TrainingLog::run_event(const char* kind, const io::OrderedJson& fields) {
    if (!json_file_) return;
    json_file_->write(metrics::to_json({kind, origin_, unix_time_s()}, fields));
}

void TrainingLog::event(io::OrderedJson event) {
    if (!json_file_) return;
    event["time"] = unix_time_s();
    json_file_->write(event.dump());
}

void TrainingLog::saved(const ckpt::SaveResult& result, i64 iteration, double elapsed_s,
                        std::optional<double> blocked_s) {
    const std::string blocked =
        blocked_s ? fmt::format(", loop blocked {}", human_duration(*blocked_s)) : "";
    note("{}: saved, {} in {}{}", result.path, human_size(result.bytes), human_duration(elapsed_s),
         blocked);
    save_s_ = save_s_.value_or(0) + elapsed_s;
    save_blocked_s_ = save_blocked_s_.value_or(0) + blocked_s.value_or(elapsed_s);
    if (!json_file_) return;
    json_file_->write(metrics::to_json(metrics::SaveRecord{.iteration = iteration,
                                                           .path = result.path,
                                                           .bytes = result.bytes,
                                                           .elapsed_s = elapsed_s,
                                                           .blocked_s = blocked_s,
                                                           .origin = origin_,
                                                           .unix_time_s = unix_time_s()}));
}

void TrainingLog::saved_locally(i64 iteration, i64 n_hosts, double elapsed_s) {
    note("--local-save: iteration {}: saved on each host ({} in all) in {}", iteration, n_hosts,
         human_duration(elapsed_s));
    save_s_ = save_s_.value_or(0) + elapsed_s;
    save_blocked_s_ = save_blocked_s_.value_or(0) + elapsed_s;
    if (!json_file_) return;
    json_file_->write(metrics::to_json(metrics::LocalSaveRecord{.iteration = iteration,
                                                                .n_hosts = n_hosts,
                                                                .elapsed_s = elapsed_s,
                                                                .unix_time_s = unix_time_s()}));
}

void log_refused_start(const config::LoggingFlags& logging, const Error& error) noexcept {
    const double now = unix_time_s();
    const std::vector<std::string_view> problems = problems_in(error.what());
    append_to(logging.file, [&](metrics::LineFile& file) {
        for (const std::string_view problem : problems) {
            file.write(fmt::format("{} lm-train: {}", iso_time(static_cast<i64>(now)), problem));
        }
    });
    append_to(logging.json, [&](metrics::LineFile& file) {
        file.write(metrics::to_json({"error", origin_of_job(), now},
                                    {{"exit_code", static_cast<int>(error.code())},
                                     {"reason", fmt::format("{}", fmt::join(problems, "; "))}}));
    });
}

}  // namespace lm::train
