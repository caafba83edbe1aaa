// SPDX-License-Identifier: Apache-2.0
#include "memory_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/types.hpp"
#include "base/units.hpp"
#include "plot/bar_chart.hpp"

namespace lm::estimate {
namespace {

i64 bytes_of(const StageMemory& stage, i64 allowance) {
    return stage.plan.total() + stage.nccl + allowance;
}

// Returns a line for each stage: its number, a bar of block characters, and its bytes.
std::string text_of(std::span<const StageMemory> stages, i64 allowance, i64 largest) {
    constexpr double columns = 50;
    std::string text;
    for (size_t i = 0; i < stages.size(); ++i) {
        const i64 bytes = bytes_of(stages[i], allowance);
        const auto n = static_cast<i64>(columns * as_double(bytes) / as_double(largest) + 0.5);
        std::string bar;
        for (i64 column = 0; column < n; ++column) bar += "█";
        const std::string padding(static_cast<size_t>(50 - n), ' ');
        text += fmt::format("stage {:>3}  {}{}  {:>10}\n", i, bar, padding, human_size(bytes));
    }
    return text;
}

}  // namespace

Picture memory_picture(std::span<const StageMemory> stages, i64 allowance,
                       std::optional<i64> limit) {
    i64 largest = std::max<i64>(1, limit.value_or(0));
    for (const StageMemory& stage : stages) {
        largest = std::max(largest, bytes_of(stage, allowance));
    }
    const bool in_gib = largest >= i64{1} << 30;
    const double unit = in_gib ? 1 << 30 : 1 << 20;
    plot::BarChart chart{.title = "Memory of a rank of each pipeline stage",
                         .x_label = "Pipeline stage",
                         .y_label = in_gib ? "Memory per rank (GiB)" : "Memory per rank (MiB)",
                         .names = {},
                         .parts = {"weights", "masters", "gradients", "optimizer", "activations",
                                   "workspace", "NCCL", "allowance"},
                         .values = {},
                         .limit = std::nullopt,
                         .limit_name = "GPU memory"};
    if (limit) chart.limit = as_double(*limit) / unit;
    for (size_t i = 0; i < stages.size(); ++i) {
        const cost::MemoryPlan& plan = stages[i].plan;
        chart.names.push_back(fmt::format("{}", i));
        std::vector<double>& bar = chart.values.emplace_back();
        for (const i64 bytes : {plan.weights, plan.masters, plan.gradients, plan.optimizer,
                                plan.activations, plan.workspace, stages[i].nccl, allowance}) {
            bar.push_back(as_double(bytes) / unit);
        }
    }
    return {svg_of(chart), text_of(stages, allowance, largest)};
}

}  // namespace lm::estimate
