// SPDX-License-Identifier: Apache-2.0
// The kinds of state that a checkpoint holds for each tensor. This release also copies and verifies
// kinds that only newer releases define.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "spec/optimizer_state.hpp"

namespace lm::ckpt {

class SliceKind {
  public:
    // A checkpoint with fp32 weights has no masters, because the weights are their own masters.
    static const SliceKind weight;
    static const SliceKind master;

    constexpr SliceKind() : name_("weight") {}
    constexpr SliceKind(const spec::OptimizerState& state) : name_(state.name) {}
    // Returns the kind with this name. Keeps a copy of the name until the process ends.
    // Thread-safe.
    static SliceKind named(std::string_view name);
    constexpr std::string_view name() const { return name_; }
    friend constexpr bool operator==(const SliceKind&, const SliceKind&) = default;
    friend constexpr auto operator<=>(const SliceKind&, const SliceKind&) = default;

  private:
    constexpr explicit SliceKind(std::string_view name) : name_(name) {}
    std::string_view name_;
};

inline constexpr SliceKind SliceKind::weight{};
inline constexpr SliceKind SliceKind::master{"master"};

// The kinds that lm-train writes.
inline constexpr auto all_kinds = [] {
    std::array<SliceKind, 2 + spec::all_states.size()> kinds{SliceKind::weight, SliceKind::master};
    std::ranges::copy(spec::all_states, kinds.begin() + 2);
    return kinds;
}();

inline std::string_view name_of(SliceKind kind) {
    return kind.name();
}

// Returns the first optimizer that has all optimizer states of `source`, which has a function
// has(SliceKind). One state is enough: a step that lacks another one is damaged, and must not pass
// for a step with weights only. Returns nullopt when `source` has no optimizer state.
template <typename Source>
std::optional<spec::OptimizerKind> optimizer_of(const Source& source) {
    std::vector<spec::OptimizerState> found;
    std::ranges::copy_if(spec::all_states, std::back_inserter(found),
                         [&](const auto& state) { return source.has(state); });
    if (found.empty()) return std::nullopt;
    for (const auto& [optimizer, name] : spec::optimizers) {
        const auto states = spec::states_of(optimizer);
        if (std::ranges::all_of(found, [&](const auto& state) {
                return std::ranges::find(states, state) != states.end();
            })) {
            return optimizer;
        }
    }
    return std::nullopt;
}

}  // namespace lm::ckpt
