// SPDX-License-Identifier: Apache-2.0
#include "layout_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/types.hpp"
#include "base/units.hpp"
#include "plot/scatter_chart.hpp"
#include "plot/style.hpp"

namespace lm::estimate {
namespace {

std::string name_of(const cost::Layout& layout) {
    return fmt::format("TP{} PP{} B{}", layout.parallel.tp, layout.parallel.pp, layout.micro_batch);
}

// Returns a line for each of the `n` fastest layouts: its name, step time and memory, and a bar
// of its speed relative to the fastest layout.
std::string text_of(const std::vector<cost::Layout>& fitting, size_t n) {
    constexpr double columns = 40;
    std::string text;
    for (size_t i = 0; i < std::min(n, fitting.size()); ++i) {
        const double share = fitting[0].time.total() / fitting[i].time.total();
        std::string bar;
        for (int column = 0; column < static_cast<int>(columns * share + 0.5); ++column) bar += "█";
        text +=
            fmt::format("{:<16} {:>10} {:>10}  {}\n", name_of(fitting[i]),
                        human_duration(fitting[i].time.total()), human_size(fitting[i].bytes), bar);
    }
    return text;
}

// Returns the sentence for a search in which no layout fits. `smallest`: the layout that needs
// least memory.
std::string no_fit_text(const cost::Layout& smallest, i64 memory_bytes) {
    return fmt::format("No layout fits: the smallest needs {}, {} too much",
                       human_size(smallest.bytes), human_size(smallest.bytes - memory_bytes));
}

// Returns the chart without dots.
plot::ScatterChart empty_chart(double memory_gib) {
    const std::string_view fits = plot::color_of(0), too_large = plot::alarm;
    return {.title = "Layouts",
            .x_label = "Memory of the fullest GPU (GiB)",
            .y_label = "Step time (s)",
            .kinds = {{"fastest that fits", plot::Symbol::best_dot, fits},
                      {"fits", plot::Symbol::dot, fits},
                      {"needs more memory", plot::Symbol::ring, too_large},
                      {"needs least memory", plot::Symbol::best_dot, too_large}},
            .dots = {},
            .limit = memory_gib,
            .limit_name = "GPU memory",
            .note = ""};
}

enum DotKind : size_t { best_kind, fits_kind, too_large_kind, least_kind };

}  // namespace

Picture layout_picture(const cost::LayoutSearch& found, i64 memory_bytes, size_t n_labels) {
    constexpr double gib = 1 << 30;
    plot::ScatterChart chart = empty_chart(as_double(memory_bytes) / gib);
    const bool none_fits = found.fitting.empty();
    if (none_fits && !found.smallest) return {svg_of(chart), "no layout\n"};
    // The picture omits much slower or larger layouts, because they would compress the scale of the
    // other layouts.
    const cost::Layout& best_layout = none_fits ? *found.smallest : found.fitting[0];
    const double slowest_s = 3 * best_layout.time.total();
    const i64 largest = 3 * std::max(memory_bytes, none_fits ? best_layout.bytes : 0) / 2;
    const auto add = [&](const cost::Layout& layout, DotKind kind, const std::string& label) {
        if (layout.bytes > largest || layout.time.total() > slowest_s) return;
        chart.dots.push_back({as_double(layout.bytes) / gib, layout.time.total(), kind, label});
    };
    for (size_t i = 0; i < found.fitting.size(); ++i) {
        add(found.fitting[i], i == 0 ? best_kind : fits_kind,
            i < n_labels ? name_of(found.fitting[i]) : "");
    }
    std::string text = text_of(found.fitting, n_labels);
    if (none_fits) {
        add(best_layout, least_kind, name_of(best_layout));
        chart.note = no_fit_text(best_layout, memory_bytes);
        text = chart.note + "\n";
    }
    for (const cost::Layout& layout : found.too_large) {
        if (!none_fits || layout.bytes != best_layout.bytes) add(layout, too_large_kind, "");
    }
    return {svg_of(chart), std::move(text)};
}

}  // namespace lm::estimate
