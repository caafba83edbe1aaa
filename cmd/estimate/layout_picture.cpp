// SPDX-License-Identifier: Apache-2.0
#include "layout_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/as_double.hpp"
#include "base/units.hpp"
#include "plot/scatter_chart.hpp"

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

}  // namespace

Picture layout_picture(const cost::LayoutSearch& found, i64 memory_bytes, size_t n_labels) {
    constexpr double gib = 1 << 30;
    plot::ScatterChart chart{.title = "Layouts",
                             .x_label = "Memory of the fullest GPU (GiB)",
                             .y_label = "Step time (s)",
                             .kinds = {"fits", "needs more memory"},
                             .dots = {},
                             .limit = as_double(memory_bytes) / gib,
                             .limit_name = "GPU memory"};
    // The picture omits much slower or larger layouts, because they would compress the scale of the
    // other layouts.
    const double slowest_s = 3 * (found.fitting.empty() ? 1e300 : found.fitting[0].time.total());
    const auto add = [&](const cost::Layout& layout, size_t kind, const std::string& label) {
        if (layout.bytes > 3 * memory_bytes / 2 || layout.time.total() > slowest_s) return;
        chart.dots.push_back({as_double(layout.bytes) / gib, layout.time.total(), kind, label});
    };
    for (size_t i = 0; i < found.fitting.size(); ++i) {
        add(found.fitting[i], 0, i < n_labels ? name_of(found.fitting[i]) : "");
    }
    for (const cost::Layout& layout : found.too_large) add(layout, 1, "");
    return {svg_of(chart), text_of(found.fitting, n_labels)};
}

}  // namespace lm::estimate
