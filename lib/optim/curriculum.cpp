// SPDX-License-Identifier: Apache-2.0
#include "optim/curriculum.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.hpp"

namespace lm::optim {
namespace {

constexpr std::string_view option = "curriculum_learning";

void check_discrete(const Curriculum& c, i64 seq_length) {
    if (c.lengths.empty() || c.lengths.size() != c.max_steps.size() + 1) {
        usage_error(option,
                    "fixed_discrete: expected one more difficulty than max_step values, got {} "
                    "difficulties and {} max_step values",
                    c.lengths.size(), c.max_steps.size());
    }
    const auto drop = std::is_sorted_until(c.max_steps.begin(), c.max_steps.end());
    if (drop != c.max_steps.end()) {
        usage_error(option, "max_step decreases from {} to {}: list the steps in increasing order",
                    *std::prev(drop), *drop);
    }
    for (const i64 length : c.lengths) {
        if (length < 1 || length > seq_length) {
            usage_error(option, "difficulty {} is not between 1 and --seq-length {}", length,
                        seq_length);
        }
    }
}

}  // namespace

std::string_view name_of(Curriculum::Kind kind) {
    return name_in(curriculum_kinds, kind);
}

Curriculum::Kind parse_curriculum_kind(std::string_view named_by, std::string_view text) {
    if (const auto kind = value_in(curriculum_kinds, text)) return *kind;
    usage_error(named_by, "expected fixed_linear, fixed_root or fixed_discrete, got '{}'", text);
}

void Curriculum::check(i64 full_length) const {
    if (kind == Kind::fixed_discrete) return check_discrete(*this, full_length);
    if (total_steps < 1)
        usage_error(option, "total_curriculum_step must be at least 1, got {}", total_steps);
    if (difficulty_step < 1)
        usage_error(option, "difficulty_step must be at least 1, got {}", difficulty_step);
    if (kind == Kind::fixed_root && root_degree < 1) {
        usage_error(option, "root_degree must be at least 1, got {}", root_degree);
    }
    if (min < difficulty_step || min > max) {
        usage_error(option,
                    "min_difficulty {} is not between difficulty_step {} and max_difficulty {}",
                    min, difficulty_step, max);
    }
    if (max > full_length) {
        usage_error(option, "max_difficulty {} is above --seq-length {}", max, full_length);
    }
}

i64 Curriculum::seq_length(i64 iteration) const {
    if (kind == Kind::fixed_discrete) {
        const auto at = std::lower_bound(max_steps.begin(), max_steps.end(), iteration);
        return lengths[static_cast<size_t>(at - max_steps.begin())];
    }
    double progress = static_cast<double>(iteration) / static_cast<double>(total_steps);
    if (kind == Kind::fixed_root) {
        progress = std::pow(progress, 1.0 / static_cast<double>(root_degree));
    }
    const double exact = progress * static_cast<double>(max - min) + static_cast<double>(min);
    if (exact >= static_cast<double>(max + difficulty_step)) return max;
    const i64 length = static_cast<i64>(std::floor(exact));
    return std::min(length - length % difficulty_step, max);
}

bool Curriculum::finished(i64 iteration) const {
    if (kind == Kind::fixed_discrete) return max_steps.empty() || iteration > max_steps.back();
    return seq_length(iteration) == max;
}

}  // namespace lm::optim
