// SPDX-License-Identifier: Apache-2.0
#include "keep_options.hpp"

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "paths.hpp"

namespace lm::ckpt_tool {

void add_rules(cli::Options& verb, RuleFlags& flags) {
    verb.value("--keep-last", &flags.keep_last, "K", "keep the K newest steps");
    verb.value("--keep-every", &flags.keep_every, "N", "keep steps that are multiples of N");
    verb.value("--keep", &flags.keep, "STEP,...", "keep the given steps");
    verb.value("--keep-schedule", &flags.keep_schedule, "RANGES",
               "keep the steps that lm-train --save-schedule RANGES saves: 10@100,18@1000,1500");
    verb.value("--weights-only-older-than", &flags.full_steps, "K",
               "remove the optimizer state of all steps except the K newest steps");
}

ckpt::PruneRules parse_rules(const RuleFlags& flags) {
    check_at_least("--keep-last", flags.keep_last, 1);
    check_at_least("--keep-every", flags.keep_every, 1);
    ckpt::PruneRules rules;
    rules.keep.last = flags.keep_last.value_or(0);
    rules.keep.every = flags.keep_every.value_or(0);
    for (const std::string& step : split_at_commas(flags.keep)) {
        rules.keep.steps.push_back(parse_step("--keep", step));
    }
    if (!flags.keep_schedule.empty()) {
        try {
            rules.keep.schedule = spec::parse_save_schedule(flags.keep_schedule);
        } catch (const Error& error) {
            // The parser's message begins with the flag of lm-train. The message must name the
            // option of this program, which the user gave.
            std::string reason = error.what();
            constexpr std::string_view other = "--save-schedule: ";
            if (reason.starts_with(other)) reason.erase(0, other.size());
            usage_error("--keep-schedule", "{}", reason);
        }
    }
    if (flags.full_steps && *flags.full_steps < 1) {
        usage_error("--weights-only-older-than",
                    "must be at least 1, got {}: a run resumes from the newest step and needs its "
                    "optimizer state",
                    *flags.full_steps);
    }
    rules.full_steps = flags.full_steps;
    return rules;
}

}  // namespace lm::ckpt_tool
