// SPDX-License-Identifier: Apache-2.0
#include "step_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plot/gantt_chart.hpp"

namespace lm::estimate {
namespace {

// Returns a line for each stage. Its 68 characters show what the stage does from the start to the
// end of the step: F forward, B backward, "." idle.
std::string text_of(const std::vector<cost::PipelineEvent>& events, i64 n_stages, double end_s) {
    constexpr size_t columns = 68;  // 79 with the name
    std::vector<std::string> lines(static_cast<size_t>(n_stages), std::string(columns, '.'));
    for (const cost::PipelineEvent& event : events) {
        const auto from = static_cast<size_t>(event.start_s / end_s * columns);
        const auto to = static_cast<size_t>(event.end_s / end_s * columns);
        for (size_t i = from; i < std::min(std::max(to, from + 1), columns); ++i) {
            lines[static_cast<size_t>(event.stage)][i] = event.is_forward ? 'F' : 'B';
        }
    }
    std::string text;
    for (size_t stage = 0; stage < lines.size(); ++stage)
        text += fmt::format("stage {:>3}  {}\n", stage, lines[stage]);
    return text;
}

}  // namespace

Picture step_picture(const std::vector<cost::PipelineEvent>& events,
                     const std::vector<Figure>& parts, i64 n_stages) {
    plot::GanttChart chart{.title = "One training step",
                           .x_label = "Time (s)",
                           .row_label = "Pipeline stage",
                           .n_rows = static_cast<size_t>(n_stages),
                           .kinds = {"forward", "backward"},
                           .spans = {},
                           .end = 0,
                           .shares = {}};
    for (const cost::PipelineEvent& event : events) {
        chart.spans.push_back({.row = static_cast<size_t>(event.stage),
                               .kind = event.is_forward ? size_t{0} : size_t{1},
                               .start = event.start_s,
                               .end = event.end_s,
                               .label = fmt::format("{}", event.micro_batch)});
        chart.end = std::max(chart.end, event.end_s);
    }
    std::ranges::stable_sort(chart.spans, {}, &plot::GanttSpan::row);
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const double value = std::get<double>(parts[i].value);
        if (value > 0) chart.shares.push_back({parts[i].label, value});
    }
    return {svg_of(chart), text_of(events, n_stages, chart.end)};
}

}  // namespace lm::estimate
