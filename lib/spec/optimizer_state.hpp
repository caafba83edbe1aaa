// SPDX-License-Identifier: Apache-2.0
// The optimizers, and the state that each of them keeps for each tensor of a model. Memory plan,
// allocation, checkpoints, converters and the comparison of replicas read these tables; the names
// of states are defined nowhere else.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/dtype.hpp"
#include "base/named.hpp"

namespace lm::spec {

struct TensorSpec;

enum class OptimizerKind { adam };
inline constexpr std::array optimizers{Named{OptimizerKind::adam, "adam"}};  // --optimizer

// A tensor of state. It has the shape of the model's tensor and is divided over ranks like it.
struct OptimizerState {
    std::string_view name;  // the kind of its slices in checkpoints
    DType dtype = DType::fp32;
    friend constexpr bool operator==(const OptimizerState&, const OptimizerState&) = default;
};

// Adam's running means of the gradient and of the squared gradient.
inline constexpr OptimizerState exp_avg{"exp_avg"};
inline constexpr OptimizerState exp_avg_sq{"exp_avg_sq"};
inline constexpr std::array adam_states{exp_avg, exp_avg_sq};

// The states of all optimizers, in the order of reports.
inline constexpr std::array all_states = adam_states;

// Returns the states that the optimizer keeps for at least one tensor of a model.
constexpr std::span<const OptimizerState> states_of(OptimizerKind optimizer) {
    switch (optimizer) {
        case OptimizerKind::adam:
            return adam_states;
    }
    return {};
}

// Returns whether all_states has each state of each optimizer once, and no other.
constexpr bool has_all_states_once() {
    const auto holds = [](std::span<const OptimizerState> states, const OptimizerState& state) {
        return std::ranges::count(states, state) == 1;
    };
    for (const auto& optimizer : optimizers) {
        for (const OptimizerState& state : states_of(optimizer.value)) {
            if (!holds(all_states, state)) return false;
        }
    }
    return std::ranges::all_of(all_states, [&](const OptimizerState& state) {
        return std::ranges::any_of(optimizers, [&](const auto& optimizer) {
            return holds(states_of(optimizer.value), state);
        });
    });
}
static_assert(has_all_states_once(), "expected the states of all optimizers in all_states");

// Returns the states that the optimizer keeps for `tensor`, in the order in which a checkpoint has
// them.
constexpr std::span<const OptimizerState> states_of(OptimizerKind optimizer, const TensorSpec&) {
    return states_of(optimizer);
}

}  // namespace lm::spec
