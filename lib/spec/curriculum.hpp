// SPDX-License-Identifier: Apache-2.0
// Curriculum learning by sequence length: each iteration trains on the first seq_length(iteration)
// tokens of its samples and ignores the rest (DeepSpeed's curriculum_scheduler.py).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/named.hpp"
#include "base/types.hpp"

namespace lm::spec {

struct Curriculum {
    enum class Kind { fixed_linear, fixed_root, fixed_discrete };
    Kind kind = Kind::fixed_linear;
    i64 min = 0;              // min_difficulty
    i64 max = 0;              // max_difficulty
    i64 total_steps = 0;      // total_curriculum_step; linear and root
    i64 difficulty_step = 8;  // lengths below `max` are multiples of this
    i64 root_degree = 1;      // fixed_root
    // fixed_discrete: lengths[i] applies up to iteration max_steps[i]. The last length applies
    // after the last of these iterations, so `lengths` has one more element than `max_steps`.
    std::vector<i64> lengths, max_steps;
    // The values are from a DeepSpeed configuration: errors name its keys instead of the flags.
    bool from_deepspeed = false;

    // Throws Error(usage) naming the flag or key of a member that has an invalid value.
    void check(i64 seq_length) const;

    // Returns the number of tokens of each sample on which iteration `iteration` (from 1) trains.
    i64 seq_length(i64 iteration) const;
    // Returns whether all later iterations have the same sequence length as `iteration`.
    bool finished(i64 iteration) const;
};

inline constexpr std::array curriculum_kinds{
    Named{Curriculum::Kind::fixed_linear, "fixed_linear"},
    Named{Curriculum::Kind::fixed_root, "fixed_root"},
    Named{Curriculum::Kind::fixed_discrete, "fixed_discrete"}};

// Returns the kind with the name `text`. Throws Error(usage) naming `option` for an unknown name.
Curriculum::Kind parse_curriculum_kind(std::string_view option, std::string_view text);
std::string_view name_of(Curriculum::Kind kind);

}  // namespace lm::spec
