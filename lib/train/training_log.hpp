// SPDX-License-Identifier: Apache-2.0
// The log of a training: Megatron's log line on stdout and in --log-file, JSON lines, TensorBoard,
// and the final table of --benchmark.
#pragma once

#include <optional>

#include "ckpt/save.hpp"
#include "device/op_times.hpp"
#include "metrics/interval.hpp"
#include "metrics/line_file.hpp"
#include "metrics/tensorboard.hpp"
#include "train/run_config.hpp"
#include "train/trainer.hpp"

namespace lm::train {

class TrainingLog {
  public:
    // Only rank 0 writes; the other ranks only compute the sums.
    explicit TrainingLog(const RunConfig& config, bool is_rank0 = true)
        : config_(config), is_rank0_(is_rank0) {}

    // Opens the files on rank 0. `start`: the progress at the start of the run.
    void open(const optim::Counters& start);

    // The size of an iteration's batch.
    struct BatchSize {
        i64 global_batch = 0;
        i64 seq_length = 0;
    };
    // Adds an iteration to the sums. `rate` is the learning rate of the next iteration, as in
    // Megatron's log line. `timed`: op_times() has measured each operation of this iteration.
    void add(const optim::Counters& done, double rate, const BatchSize& batch,
             const StepResult& result, double elapsed_s, bool timed = false);
    // Adds an iteration whose batch was consumed without training (--skip-train-iteration-range).
    void skipped(const optim::Counters& done, double rate, const BatchSize& batch);
    // Logs the iterations since the previous call.
    void log(const optim::Counters& done, double rate);
    // Logs a validation loss. `when` is part of the line: "iteration 1000".
    void validation(const std::string& name, const std::string& when, const optim::Counters& done,
                    double loss, i64 n_samples, double elapsed_s);
    // Logs a save that took `elapsed_s` seconds. The loop waited for it for `blocked_s` seconds;
    // nullopt: the whole time.
    void saved(const ckpt::SaveResult& result, i64 iteration, double elapsed_s,
               std::optional<double> blocked_s);

    // Returns the sums over the iterations since the last log(), for a checkpoint; restore() sets
    // them on resume.
    const metrics::IntervalSums& unlogged() const { return interval_.sums(); }
    void restore(const metrics::IntervalSums& unlogged) { interval_.restore(unlogged); }

    device::OpTimes& op_times() { return op_times_; }
    // Prints tokens/s and FLOP/s of the iterations after the first, and a table of the operations.
    // Tokens/s and FLOP/s do not include the timed iterations, because measuring operations takes
    // time itself. `device` is this rank's device; the peak of a GPU gives MFU.
    void benchmark(Trainer& trainer, const RunConfig& config, device::Device& device) const;

  private:
    // The time and the work of some iterations.
    struct TimedWork {
        double s = 0;
        i64 tokens = 0, iterations = 0;
    };
    void print_operations() const;
    void print_utilisation(const RunConfig& config, const std::string& device, double step_s) const;
    void print(const std::string& lines);
    metrics::StepRecord record(const optim::Counters& done, double rate) const;

    const RunConfig& config_;
    bool is_rank0_;
    metrics::Interval interval_;
    double loss_scale_ = 1;
    std::optional<double> last_norm_;  // nullopt: the last iteration was skipped
    BatchSize last_;
    std::optional<metrics::LineFile> log_file_, json_file_;
    std::optional<metrics::TensorBoard> tensorboard_;
    std::optional<double> save_s_, save_blocked_s_;  // since the last log line
    bool stdout_works_ = true;
    device::OpTimes op_times_;
    TimedWork measured_, timed_;
    i64 iterations_ = 0;
};

}  // namespace lm::train
