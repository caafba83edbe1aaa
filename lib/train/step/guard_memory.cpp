// SPDX-License-Identifier: Apache-2.0
#include "train/step/guard_memory.hpp"

#include <vector>

#include "base/error.hpp"
#include "io/json.hpp"

namespace lm::train {

io::OrderedJson to_json(const GuardMemory& memory) {
    std::vector<double> losses, log_norms;
    for (const SpikeDetector::Step& step : memory.spikes.recent()) {
        losses.push_back(step.loss);
        log_norms.push_back(step.log_norm);
    }
    return {{"recent_losses", losses},
            {"recent_log_norms", log_norms},
            {"spikes_in_a_row", memory.spikes.in_a_row()},
            {"in_spike", memory.in_spike},
            {"overflows_in_a_row", memory.overflows_in_a_row},
            {"non_finite_in_a_row", memory.non_finite_in_a_row}};
}

GuardMemory guard_memory_from(const io::Json& object, const std::string& path) {
    const auto losses = io::json_get<std::vector<double>>(object, "recent_losses", path);
    const auto log_norms = io::json_get<std::vector<double>>(object, "recent_log_norms", path);
    if (losses.size() != log_norms.size()) {
        fail(Exit::failure, path,
             "corrupt manifest: recent_losses has {} values, but recent_log_norms has {}: load "
             "another checkpoint",
             losses.size(), log_norms.size());
    }
    std::vector<SpikeDetector::Step> steps;
    for (size_t i = 0; i < losses.size(); ++i) steps.push_back({losses[i], log_norms[i]});
    GuardMemory memory{
        .in_spike = io::json_get<bool>(object, "in_spike", path),
        .overflows_in_a_row = io::json_get<i64>(object, "overflows_in_a_row", path),
        .non_finite_in_a_row = io::json_get<i64>(object, "non_finite_in_a_row", path)};
    memory.spikes.set_recent(steps);
    memory.spikes.set_in_a_row(io::json_get<i64>(object, "spikes_in_a_row", path));
    return memory;
}

}  // namespace lm::train
