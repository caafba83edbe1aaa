// SPDX-License-Identifier: Apache-2.0
// lm-estimate eta --plot: loss, gradient norm, learning rate and throughput of one or more runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "metrics/log_summary.hpp"
#include "picture.hpp"
#include "plot/line_figure.hpp"

namespace lm::estimate {

// The curves of a run, from its logged iterations in the order of the log.
class RunCurves {
  public:
    static constexpr size_t n_panels = 4;

    explicit RunCurves(std::string name) : name_(std::move(name)) {}
    // Adds the iterations after `before` that `line` reports. If `first_of_run` is true, the
    // program or the training was restarted after iteration `before`, so the earlier lines of
    // iterations after `before` are invalid.
    void add(const metrics::LoggedIteration& line, i64 before, bool first_of_run);
    bool has_samples() const { return has_samples_; }
    bool has_tokens() const { return has_tokens_; }

  private:
    friend Picture eta_picture(const std::vector<RunCurves>& runs, const std::string& axis);
    // A logged iteration. Values that its line does not state are NaN.
    struct Entry {
        i64 iteration = 0;
        double samples = 0, tokens = 0;
        float values[n_panels] = {};  // lm loss, gradient norm, learning rate, throughput
        bool skipped = false;         // some iterations were skipped or had NaN
    };
    double x_of(const Entry& entry, const std::string& axis) const;
    // Returns the place of `iteration`, which is before the iteration of `entry`, on a straight
    // line between the last line and `entry`.
    Entry place_of(i64 iteration, const Entry& entry) const;
    void add_to(plot::LineFigure& figure, size_t run, const std::string& axis) const;

    std::string name_;
    std::vector<Entry> entries_;
    std::vector<Entry> restarts_;  // the places at which the training resumed, without values
    std::vector<std::vector<Entry>> discarded_;  // the lines that each restart made invalid
    bool has_samples_ = true, has_tokens_ = true;
};

// Returns the picture. Its x axis is `axis`: "iterations", "samples" or "tokens". If `axis` is
// empty, the x axis shows tokens for several runs whose logs all have tokens, else iterations.
// Throws Error(usage) when a log does not have the numbers of the axis.
Picture eta_picture(const std::vector<RunCurves>& runs, const std::string& axis);

}  // namespace lm::estimate
