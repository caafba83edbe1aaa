// SPDX-License-Identifier: Apache-2.0
#include "step_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.hpp"
#include "plot/gantt_chart.hpp"

namespace lm::estimate {
namespace {

// A kind of work of a stage. The letter stands for it on a terminal.
struct Work {
    const char* name;
    char letter;
};
enum WorkKind : size_t { forward, backward, reduction, optimizer, gather };
constexpr std::array<Work, 5> works = {{{"forward", 'F'},
                                        {"backward", 'B'},
                                        {"gradient reduction", 'R'},
                                        {"optimizer", 'O'},
                                        {"gather of weights", 'G'}}};

// Returns the spans of the step: passes, and the phases after the pipeline. Ascending in each row.
std::vector<plot::GanttSpan> spans_of(const StepPicture& step) {
    std::vector<plot::GanttSpan> spans;
    for (const cost::PipelineEvent& event : step.events) {
        spans.push_back({.row = static_cast<size_t>(event.stage),
                         .kind = event.is_forward ? forward : backward,
                         .start = event.start_s,
                         .end = event.end_s,
                         .label = fmt::format("{}", event.micro_batch)});
    }
    double start_s = step.time.pipeline_s();
    const auto add_phase = [&](WorkKind kind, double seconds, bool only_ends) {
        if (!(seconds > 0)) return;
        for (i64 stage = 0; stage < step.n_stages; ++stage) {
            if (only_ends && stage > 0 && stage + 1 < step.n_stages) continue;
            spans.push_back({.row = static_cast<size_t>(stage),
                             .kind = kind,
                             .start = start_s,
                             .end = start_s + seconds,
                             .label = ""});
        }
        start_s += seconds;
    };
    add_phase(reduction, step.time.reduce_s(), false);
    add_phase(reduction, step.time.tied_s, true);
    add_phase(optimizer, step.time.optimizer_s, false);
    add_phase(gather, step.time.gather_s, false);
    std::ranges::stable_sort(spans, {}, &plot::GanttSpan::row);
    return spans;
}

bool has_kind(const std::vector<plot::GanttSpan>& spans, size_t kind) {
    return std::ranges::any_of(spans, [kind](const auto& span) { return span.kind == kind; });
}

// Returns a line for each stage, and the meaning of the letters. The 68 characters of a line show
// the work of the stage from the start to the end of the step.
std::string text_of(const std::vector<plot::GanttSpan>& spans, const StepPicture& step) {
    constexpr size_t columns = 68;  // 79 with the name
    const double end_s = step.time.total();
    std::vector<std::string> lines(static_cast<size_t>(step.n_stages), std::string(columns, '.'));
    for (const plot::GanttSpan& span : spans) {
        const auto from = static_cast<size_t>(span.start / end_s * columns);
        const auto to = static_cast<size_t>(span.end / end_s * columns);
        for (size_t i = from; i < std::min(std::max(to, from + 1), columns); ++i) {
            lines[span.row][i] = works[span.kind].letter;
        }
    }
    std::string text;
    for (size_t stage = 0; stage < lines.size(); ++stage)
        text += fmt::format("stage {:>3}  {}\n", stage, lines[stage]);
    for (size_t kind = 0; kind < works.size(); ++kind) {
        if (has_kind(spans, kind))
            text += fmt::format("{} {}, ", works[kind].letter, works[kind].name);
    }
    return text + fmt::format(". idle\nstart to end: {}\n", human_duration(end_s));
}

std::vector<plot::GanttShare> shares_of(const StepPicture& step) {
    std::vector<plot::GanttShare> shares;
    for (size_t i = 0; i + 1 < step.parts.size(); ++i) {
        const double value = std::get<double>(step.parts[i].value);
        if (!(value > 1e-9 * step.time.total())) continue;  // rounding gives a bubble of 1e-16 s
        shares.push_back(
            {step.parts[i].label, value,
             fmt::format("{}, {:.1f} %", human_duration(value), 100 * value / step.time.total())});
    }
    return shares;
}

}  // namespace

Picture step_picture(const StepPicture& step) {
    plot::GanttChart chart{.title = "One training step",
                           .x_label = "Time (s)",
                           .row_heading = "Stage",
                           .n_rows = static_cast<size_t>(step.n_stages),
                           .kinds = {},
                           .spans = spans_of(step),
                           .end = step.time.total(),
                           .end_label = "end: " + human_duration(step.time.total()),
                           .label_note = "numbers: micro-batches",
                           .shares = shares_of(step),
                           .shares_heading = "Time of the busiest stage"};
    for (const Work& work : works) chart.kinds.emplace_back(work.name);
    std::string text = text_of(chart.spans, step);
    return {svg_of(chart), std::move(text)};
}

}  // namespace lm::estimate
