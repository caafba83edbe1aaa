// SPDX-License-Identifier: Apache-2.0
// What a run reports: Megatron's log line on stdout and in --log-file, JSON lines, TensorBoard, and
// the closing table of --benchmark.
#pragma once

#include <optional>

#include "device/op_times.hpp"
#include "metrics/interval.hpp"
#include "metrics/line_file.hpp"
#include "metrics/tensorboard.hpp"
#include "train/run_config.hpp"

namespace lm::train {

class TrainingLog {
  public:
    // `writes` false: a rank that keeps the sums but leaves the writing to rank 0.
    TrainingLog(const RunConfig& config, const optim::Counters& start, bool writes = true);

    // What an iteration took.
    struct Taken {
        i64 global_batch = 0;
        i64 seq_length = 0;
    };
    // An iteration was done: `rate` is the next one's, as in Megatron's log line. Each of its
    // operations was measured by op_times() if `timed`.
    void add(const optim::Counters& done, double rate, const Taken& taken, const StepResult& result,
             double elapsed_s, bool timed = false);
    // An iteration's batch was taken but not trained on.
    void skipped(const optim::Counters& done, double rate, const Taken& taken);
    // Logs what has been added since the last time.
    void log(const optim::Counters& done, double rate);
    // `when` stands in the line: "iteration 1000".
    void validation(const std::string& name, const std::string& when, const optim::Counters& done,
                    double loss, i64 n_samples, double elapsed_s);
    void saved(const ckpt::SaveResult& result, double elapsed_s);

    const metrics::IntervalSums& unlogged() const { return interval_.sums(); }
    void restore(const metrics::IntervalSums& unlogged) { interval_.restore(unlogged); }

    device::OpTimes& op_times() { return op_times_; }
    // Tokens/s and FLOP/s of the iterations after the first, but for those that were timed, and
    // where the time of these went: measuring operations costs time itself.
    // `device` is this rank's; a GPU's peak gives MFU.
    void benchmark(Trainer& trainer, const RunConfig& config, device::Device& device) const;

  private:
    struct Spell {
        double s = 0;
        i64 tokens = 0, iterations = 0;
    };
    void print_operations() const;
    void print_utilisation(const RunConfig& config, const std::string& device, double step_s) const;
    void print(const std::string& lines);
    metrics::StepRecord record(const optim::Counters& done, double rate) const;

    const RunConfig& config_;
    bool writes_;
    metrics::Interval interval_;
    double loss_scale_ = 1;
    std::optional<double> last_norm_;  // none: the last iteration was skipped
    Taken last_;
    std::optional<metrics::LineFile> log_file_, json_file_;
    std::optional<metrics::TensorBoard> tensorboard_;
    bool stdout_works_ = true;
    device::OpTimes op_times_;
    Spell measured_, timed_;
    i64 iterations_ = 0;
};

}  // namespace lm::train
