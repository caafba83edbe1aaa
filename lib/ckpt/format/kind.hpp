// SPDX-License-Identifier: Apache-2.0
// The kinds of state that a checkpoint holds for each tensor. This release also copies and verifies
// kinds that only newer releases define.
#pragma once

#include <array>
#include <compare>
#include <string_view>

namespace lm::ckpt {

class SliceKind {
  public:
    // A checkpoint with fp32 weights has no masters, because the weights are their own masters.
    static const SliceKind weight;
    static const SliceKind master;
    static const SliceKind exp_avg;
    static const SliceKind exp_avg_sq;

    SliceKind();  // the kind `weight`
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

inline constexpr SliceKind SliceKind::weight{"weight"};
inline constexpr SliceKind SliceKind::master{"master"};
inline constexpr SliceKind SliceKind::exp_avg{"exp_avg"};
inline constexpr SliceKind SliceKind::exp_avg_sq{"exp_avg_sq"};
inline SliceKind::SliceKind() : name_(weight.name_) {}

// The kinds that lm-train writes.
inline constexpr std::array all_kinds{SliceKind::weight, SliceKind::master, SliceKind::exp_avg,
                                      SliceKind::exp_avg_sq};

inline std::string_view name_of(SliceKind kind) {
    return kind.name();
}

}  // namespace lm::ckpt
