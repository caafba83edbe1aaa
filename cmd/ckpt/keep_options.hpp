// SPDX-License-Identifier: Apache-2.0
// The options of prune and sync that choose which steps are kept.
#pragma once

#include <optional>
#include <string>

#include "ckpt/verbs/prune.hpp"
#include "cli/options.hpp"

namespace lm::ckpt_tool {

struct RuleFlags {
    std::optional<i64> keep_last;
    std::optional<i64> keep_every;
    std::string keep;
    std::string keep_schedule;
    std::optional<i64> full_steps;
};

void add_rules(cli::Options& verb, RuleFlags& flags);

// Parses the values of the options. Throws Error(usage) naming an option with an invalid value.
ckpt::PruneRules parse_rules(const RuleFlags& flags);

}  // namespace lm::ckpt_tool
