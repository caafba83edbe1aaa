// SPDX-License-Identifier: Apache-2.0
// Adds up the iterations of a log, their samples, tokens and operations, and fits their step times
// to their batch sizes.
#pragma once

#include <deque>
#include <optional>

#include "metrics/log_parser.hpp"

namespace lm::metrics {

// Fits step_s = a + b * batch to the lines of a log by least squares. The weight of a line is its
// number of iterations.
class StepFit {
  public:
    void add(double batch, double step_s, double weight);
    // Returns a / (a + b * batch), in [0, 1]: the share of a step's time that does not grow with
    // the batch. Returns nullopt when the batch sizes are nearly equal or do not change the step
    // time.
    std::optional<double> fixed_share(double batch) const;

  private:
    double n_ = 0, mean_x_ = 0, mean_y_ = 0, xx_ = 0, xy_ = 0;
};

// Sums over computed iterations.
struct LogSums {
    i64 iterations = 0;
    double samples = 0, tokens = 0;
    double step_s = 0;
    // The FLOPs and seconds of the iterations whose line states FLOP/s.
    double flops = 0, flops_s = 0;
    double mean_batch() const { return samples / static_cast<double>(iterations); }
    double mean_step_s() const { return step_s / static_cast<double>(iterations); }
};

class LogRates {
  public:
    // `window`: largest number of lines that recent() sums.
    explicit LogRates(i64 window) : window_(window) {}

    // Adds `n` iterations that `line` reports. `previous`: the previous line; nullptr for the first
    // one. `first_of_run`: a program has started, or has returned to an older checkpoint, since the
    // previous line.
    void add(const LoggedIteration& line, i64 n, bool first_of_run,
             const LoggedIteration* previous);

    // Returns the sums over all work that the machine did, including iterations that were computed
    // twice, and iterations between the last line of a run and its stop, for which the values of
    // that line are assumed.
    const LogSums& sums() const { return sums_; }
    // Returns the sums over the last lines with the current batch size, at most `window` lines.
    // Omits the first line of a run, in which the program warms up, unless there are no other
    // lines.
    LogSums recent() const;
    const StepFit& fit() const { return fit_; }
    std::optional<double> tokens_per_sample() const { return tokens_per_sample_; }

  private:
    struct Recent {
        LogSums sums;
        bool first_of_run = false;
    };
    double tokens_of(const LoggedIteration& line, const LoggedIteration* from, double samples);

    i64 window_;
    LogSums sums_;
    std::deque<Recent> recent_;
    StepFit fit_;
    std::optional<double> tokens_per_sample_;
};

}  // namespace lm::metrics
