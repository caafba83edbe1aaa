// SPDX-License-Identifier: Apache-2.0
#include "spec/curriculum.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/problem_list.hpp"

namespace lm::spec {
namespace {

// The names of the members in error messages.
struct Names {
    std::string_view block;  // precedes the name that begins a message
    std::string_view min, max, total_steps, difficulty_step, root_degree, lengths, max_steps;

    std::string object(std::string_view name) const { return fmt::format("{}{}", block, name); }
};

constexpr Names flag_names{.block = "",
                           .min = "--curriculum-min-difficulty",
                           .max = "--curriculum-max-difficulty",
                           .total_steps = "--curriculum-total-steps",
                           .difficulty_step = "--curriculum-difficulty-step",
                           .root_degree = "--curriculum-root-degree",
                           .lengths = "--curriculum-difficulties",
                           .max_steps = "--curriculum-max-steps"};
constexpr Names deepspeed_names{.block = "curriculum_learning: ",
                                .min = "min_difficulty",
                                .max = "max_difficulty",
                                .total_steps = "total_curriculum_step",
                                .difficulty_step = "difficulty_step",
                                .root_degree = "root_degree",
                                .lengths = "difficulty",
                                .max_steps = "max_step"};

void check_discrete(const Curriculum& c, const Names& names, i64 seq_length) {
    if (c.lengths.empty() || c.lengths.size() != c.max_steps.size() + 1) {
        usage_error(names.object(names.lengths),
                    "expected one value more than {} has, got {} and {} values", names.max_steps,
                    c.lengths.size(), c.max_steps.size());
    }
    const auto drop = std::is_sorted_until(c.max_steps.begin(), c.max_steps.end());
    if (drop != c.max_steps.end()) {
        usage_error(names.object(names.max_steps),
                    "decreases from {} to {}: list the steps in increasing order", *std::prev(drop),
                    *drop);
    }
    for (const i64 length : c.lengths) {
        if (length < 1 || length > seq_length) {
            usage_error(names.object(names.lengths), "{} is not between 1 and --seq-length {}",
                        length, seq_length);
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
    const Names& names = from_deepspeed ? deepspeed_names : flag_names;
    if (kind == Kind::fixed_discrete) return check_discrete(*this, names, full_length);
    check_all([&] { check_at_least(names.object(names.total_steps), total_steps, 1); },
              [&] { check_at_least(names.object(names.difficulty_step), difficulty_step, 1); },
              [&] {
                  if (kind == Kind::fixed_root)
                      check_at_least(names.object(names.root_degree), root_degree, 1);
              },
              [&] {
                  if (min < difficulty_step || min > max)
                      usage_error(names.object(names.min), "{} is not between {} {} and {} {}", min,
                                  names.difficulty_step, difficulty_step, names.max, max);
              },
              [&] {
                  if (max > full_length)
                      usage_error(names.object(names.max), "{} is above --seq-length {}", max,
                                  full_length);
              });
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

}  // namespace lm::spec
