// SPDX-License-Identifier: Apache-2.0
#include "eta_picture.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/types.hpp"
#include "cli/terminal.hpp"
#include "plot/axis.hpp"
#include "plot/sparkline.hpp"

namespace lm::estimate {
namespace {

constexpr std::array<const char*, RunCurves::n_panels> titles = {
    "Loss", "Gradient norm", "Learning rate", "Samples per second"};
constexpr size_t throughput = 3;
constexpr int title_columns = 18;  // the longest title

float value_of(const std::optional<double>& value) {
    return value ? static_cast<float>(*value) : std::numeric_limits<float>::quiet_NaN();
}

// Returns the samples per second; nullopt when the line does not state the batch.
std::optional<double> throughput_of(const metrics::LoggedIteration& line) {
    if (!line.global_batch || !(line.step_s > 0)) return std::nullopt;
    return as_double(*line.global_batch) / line.step_s;
}

// Returns a line of text for each panel: its curve as characters, and the last value of the curve.
// The curve has the columns that the terminal's width leaves.
std::string text_of(const plot::LineFigure& figure) {
    const int width = cli::terminal_width(STDOUT_FILENO, 120);
    std::string text;
    for (const plot::Panel& panel : figure.panels) {
        for (const plot::Curve& curve : panel.curves) {
            if (curve.discarded || curve.points.empty()) continue;
            plot::DataExtent extent;
            for (const plot::Point& point : curve.points) extent.add(point.y);
            if (extent.empty()) continue;
            const std::string run =
                figure.runs.size() > 1 ? "  " + figure.runs[curve.run].name : "";
            const std::string values =
                fmt::format("  {:.4g} to {:.4g}, last {:.4g}{}", extent.low(), extent.high(),
                            curve.points.back().y, run);
            const int columns =
                std::clamp(width - title_columns - 1 - static_cast<int>(values.size()), 10, 60);
            text += fmt::format("{:<{}} {}{}\n", panel.title, title_columns,
                                plot::sparkline(curve.points, columns), values);
        }
    }
    return text.empty() ? "no values to draw\n" : text;
}

}  // namespace

void RunCurves::add(const metrics::LoggedIteration& line, i64 before, bool first_of_run) {
    const bool restarted = first_of_run && !entries_.empty();
    if (restarted && entries_.back().iteration > before) {
        const auto first = std::ranges::find_if(
            entries_, [before](const Entry& entry) { return entry.iteration > before; });
        discarded_.emplace_back(first, entries_.end());
        entries_.erase(first, entries_.end());
    }
    has_samples_ &= line.consumed_samples.has_value();
    has_tokens_ &= line.consumed_tokens.has_value();
    const Entry entry = {.iteration = line.iteration,
                         .samples = as_double(line.consumed_samples.value_or(0)),
                         .tokens = as_double(line.consumed_tokens.value_or(0)),
                         .values = {value_of(line.loss), value_of(line.grad_norm),
                                    value_of(line.learning_rate), value_of(throughput_of(line))},
                         .skipped = line.skipped > 0 || line.nan > 0};
    if (restarted) restarts_.push_back(place_of(before, entry));
    entries_.push_back(entry);
}

RunCurves::Entry RunCurves::place_of(i64 iteration, const Entry& entry) const {
    const Entry from = entries_.empty() ? Entry{} : entries_.back();
    const i64 distance = std::max<i64>(1, entry.iteration - from.iteration);
    const double share =
        std::clamp(as_double(iteration - from.iteration) / as_double(distance), 0.0, 1.0);
    return {.iteration = iteration,
            .samples = std::lerp(from.samples, entry.samples, share),
            .tokens = std::lerp(from.tokens, entry.tokens, share)};
}

double RunCurves::x_of(const Entry& entry, const std::string& axis) const {
    if (axis == "samples") return entry.samples;
    return axis == "tokens" ? entry.tokens : as_double(entry.iteration);
}

void RunCurves::add_to(plot::LineFigure& figure, size_t run, const std::string& axis) const {
    plot::RunMarks marks{.name = name_, .restarts = {}, .skipped = {}};
    for (const Entry& entry : restarts_) marks.restarts.push_back(x_of(entry, axis));
    for (const Entry& entry : entries_) {
        if (entry.skipped) marks.skipped.push_back(x_of(entry, axis));
    }
    figure.runs.push_back(std::move(marks));
    const auto add_curve = [&](const std::vector<Entry>& entries, bool discarded) {
        for (size_t panel = 0; panel < n_panels; ++panel) {
            plot::Curve curve{.run = run, .discarded = discarded, .points = {}};
            curve.points.reserve(entries.size());
            for (const Entry& entry : entries) {
                curve.points.push_back({x_of(entry, axis), double{entry.values[panel]}});
            }
            figure.panels[panel].curves.push_back(std::move(curve));
        }
    };
    for (const std::vector<Entry>& entries : discarded_) add_curve(entries, true);
    add_curve(entries_, false);
}

Picture eta_picture(const std::vector<RunCurves>& runs, const std::string& axis) {
    const bool tokens = std::ranges::all_of(runs, &RunCurves::has_tokens);
    const std::string x = !axis.empty()               ? axis
                          : runs.size() > 1 && tokens ? "tokens"
                                                      : "iterations";
    for (const RunCurves& run : runs) {
        const bool has = x == "tokens" ? run.has_tokens() : x != "samples" || run.has_samples();
        if (!has) usage_error("--plot-over", "{}: the log does not show {}", run.name_, x);
    }
    plot::LineFigure figure{.title = "Training", .x_label = x, .runs = {}, .panels = {}};
    figure.x_label[0] = static_cast<char>(figure.x_label[0] - 'a' + 'A');
    for (size_t panel = 0; panel < RunCurves::n_panels; ++panel) {
        figure.panels.push_back({.title = titles[panel],
                                 .may_be_log = panel == 1,
                                 .from_zero = panel == throughput,
                                 .curves = {}});
    }
    for (size_t run = 0; run < runs.size(); ++run) runs[run].add_to(figure, run, x);
    return {svg_of(figure), text_of(figure)};
}

}  // namespace lm::estimate
