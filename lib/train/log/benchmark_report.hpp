// SPDX-License-Identifier: Apache-2.0
// The report of --benchmark at the end of a run.
#pragma once

#include <string>

#include "device/op_times.hpp"
#include "train/log/training_log.hpp"

namespace lm::train {

class BenchmarkReport {
  public:
    // The times of the operations, for Trainer::measure().
    device::OpTimes& op_times() { return op_times_; }
    // Adds an iteration. Drops the first one, which includes warm-up. `timed`: op_times() has
    // measured each operation of this iteration.
    void add(const TrainingLog::BatchSize& batch, double elapsed_s, bool timed);
    // Prints tokens/s and FLOP/s of the iterations after the first, and a table of the operations.
    // Tokens/s and FLOP/s do not include the timed iterations, because measuring operations takes
    // time itself. `device`: this rank's device; if it is a GPU, its peak FLOP/s give the MFU.
    void print(Trainer& trainer, const RunConfig& config, device::Device& device) const;

  private:
    // The time and the work of some iterations.
    struct TimedWork {
        double s = 0;
        i64 tokens = 0, iterations = 0;
    };
    double model_flops(const spec::ModelConfig& model) const;
    void print_operations() const;
    void print_utilisation(const RunConfig& config, const std::string& device, double step_s) const;

    device::OpTimes op_times_;
    TrainingLog::BatchSize last_;
    TimedWork measured_, timed_;
    bool warm_ = false;  // an iteration was added
};

}  // namespace lm::train
