// SPDX-License-Identifier: Apache-2.0
// The log of a training: Megatron's log line on stdout and in --log-file, JSON lines, TensorBoard.
#pragma once

#include <cstdio>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "ckpt/history/save.hpp"
#include "metrics/interval.hpp"
#include "metrics/line_file.hpp"
#include "metrics/tensorboard.hpp"
#include "train/config/run_config.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {

class TrainingLog {
  public:
    // Only rank 0 writes. The other ranks compute the sums, which a checkpoint contains.
    explicit TrainingLog(const RunConfig& config, bool is_rank0 = true)
        : config_(config), is_rank0_(is_rank0) {}
    ~TrainingLog();
    TrainingLog(const TrainingLog&) = delete;
    TrainingLog& operator=(const TrainingLog&) = delete;

    // On rank 0, creates the directories of --log-file and --log-json that are below --save. Call
    // it after all checks of the start, so that an error of the start leaves no new directory.
    void make_directories() const;
    // Opens --log-file and --log-json on rank 0. Earlier notes and warnings of this process are
    // written to --log-file, too; later notes and warnings also go there.
    void open_files();
    // Prints lines of the plan on stderr, unless --quiet is given, and writes them to --log-file.
    void plan(const std::string& lines) {
        if (!config_.logging.quiet) std::fputs(lines.c_str(), stderr);
        write_to_file(lines, unix_time_s());
    }
    // Opens new files in --tensorboard-dir on rank 0. `start`: the progress at the start of the run
    // or after a rollback; readers ignore the values of later iterations in earlier files.
    void open_tensorboard(const spec::Counters& start);

    // Sets the run id and the generation that this start has claimed in --save. Events contain both
    // values.
    void claimed(const std::string& run_id, i64 generation);
    // Write an event of the run to --log-json: the start with `n_ranks` ranks, a resume or
    // rollback, the stop. The event of a start is written after the checkpoint is loaded, and has
    // the time since this log was constructed.
    void started(const spec::Counters& at, i64 n_ranks);
    void resumed(const spec::Counters& at);
    void stopped(i64 iteration, Exit code, const std::string& reason);
    // Writes the error that ends the run to --log-file and --log-json. Opens the files if they are
    // not open yet, so that an error of the start is in the logs, too. Does not throw.
    void failed(const Error& error) noexcept;
    // Sets the peak FLOP/s of a rank's GPU, from which log lines compute the MFU.
    void set_peak_flops(double peak_flops) { peak_flops_ = peak_flops; }

    // The size of an iteration's batch.
    struct BatchSize {
        i64 global_batch = 0;
        i64 seq_length = 0;
        double tokens() const { return static_cast<double>(global_batch * seq_length); }
    };
    // Adds an iteration to the sums. `rate` is the learning rate of the next iteration, as in
    // Megatron's log line.
    void add(const spec::Counters& done, double rate, const BatchSize& batch,
             const StepResult& result, double elapsed_s);
    // Sets the values of --log-params-norm and --log-num-zeros-in-grad for the next add().
    void set_norms(std::optional<double> params_norm, std::optional<double> num_zeros) {
        params_norm_ = params_norm;
        num_zeros_ = num_zeros;
    }
    // Logs the seconds of a step in each phase: the mean with --log-timers-to-tensorboard, the
    // smallest and the largest with --timing-log-level.
    void phases(i64 iteration, const PhaseSpread& spread);
    // Adds an iteration whose batch was consumed without training (--skip-train-iteration-range,
    // --on-nan skip). `finite`: whether the loss and the gradients of the iteration were finite.
    void skipped(const spec::Counters& done, double rate, const BatchSize& batch,
                 bool finite = true);
    // Logs the iterations since the previous call.
    void log(const spec::Counters& done, double rate);
    // Logs a validation loss. `when`, such as "iteration 1000", becomes part of the line.
    void validation(const std::string& name, const std::string& when, const spec::Counters& done,
                    double loss, i64 n_samples, double elapsed_s);
    // Writes an event to --log-json, with its time.
    void event(io::OrderedJson event);
    // Logs a save that took `elapsed_s` seconds. The loop waited for the save for `blocked_s`
    // seconds; nullopt: the whole time.
    void saved(const ckpt::SaveResult& result, i64 iteration, double elapsed_s,
               std::optional<double> blocked_s);
    // Logs a save to --local-save by `n_hosts` hosts. The loop waited for the whole save.
    void saved_locally(i64 iteration, i64 n_hosts, double elapsed_s);

    // Returns the sums over the iterations since the last log(), for a checkpoint; restore() sets
    // them on resume.
    const metrics::IntervalSums& unlogged() const { return interval_.sums(); }
    void restore(const metrics::IntervalSums& unlogged) { interval_.restore(unlogged); }

  private:
    std::string line_of(const metrics::StepRecord& step) const;
    void log_first(const spec::Counters& done, double rate);
    void print(const std::string& lines);
    // Writes lines to --log-file only, each with the time `unix_s`.
    void write_to_file(std::string_view lines, double unix_s);
    void run_event(const char* kind, const io::OrderedJson& fields);
    metrics::StepRecord record(const spec::Counters& done, double rate) const;

    const RunConfig& config_;
    bool is_rank0_;
    Stopwatch since_start_;
    double peak_flops_ = 0;  // 0: no MFU
    metrics::Interval interval_;
    double loss_scale_ = 1;
    std::optional<double> params_norm_, num_zeros_;
    std::optional<double> last_norm_;  // nullopt: the last iteration was skipped or not finite
    BatchSize last_;
    std::optional<metrics::LineFile> log_file_, json_file_;
    metrics::RunOrigin origin_;
    std::string run_id_;
    std::optional<metrics::TensorBoard> tensorboard_;
    std::optional<double> save_s_, save_blocked_s_;  // since the last log line
    bool stdout_works_ = true;
    bool has_iteration_ = false;
};

// Appends the error of a start to --log-file, and to --log-json as an event "error". Call it for
// errors before run(), which writes its own errors to the logs. Does not throw. A file that cannot
// be written is skipped.
void log_refused_start(const config::LoggingFlags& logging, const Error& error) noexcept;

}  // namespace lm::train
