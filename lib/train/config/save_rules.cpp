// SPDX-License-Identifier: Apache-2.0
#include "train/config/save_rules.hpp"

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/problem_list.hpp"
#include "base/units.hpp"
#include "ckpt/history/steps.hpp"

namespace lm::train {
namespace {

constexpr std::string_view retain_flag = "--save-retain";

i64 at_least_one(const std::string& rule, const std::string& value) {
    const i64 number = parse_count(retain_flag, value);
    if (number < 1) usage_error(retain_flag, "{}: expected at least 1, got {}", rule, value);
    return number;
}

// Splits the text at its commas.
std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> items;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        items.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return items;
}

void add_rule(ckpt::PruneRules& rules, const std::string& name, const std::string& value) {
    if (name == "keep-last") {
        rules.keep.last = at_least_one(name, value);
    } else if (name == "keep-every") {
        rules.keep.every = at_least_one(name, value);
    } else if (name == "keep") {
        for (const std::string& step : split(value)) {
            rules.keep.steps.push_back(parse_count(retain_flag, step));
        }
    } else if (name == "keep-schedule") {
        rules.keep.schedule = spec::parse_save_schedule(value);
    } else if (name == "weights-only-older-than") {
        rules.full_steps = at_least_one(name, value);
    } else {
        usage_error(retain_flag,
                    "'{}' is not one of keep-last, keep-every, keep, keep-schedule and "
                    "weights-only-older-than",
                    name);
    }
}

// Collects the flags that need another one.
class Needs {
  public:
    explicit Needs(std::string_view other) : other_(other) {}
    void refuse(bool given, std::string_view flag) {
        if (given) problems_.push_back(fmt::format("{}: needs {}", flag, other_));
    }
    void throw_problems() const { lm::throw_problems(problems_); }

  private:
    std::string_view other_;
    std::vector<std::string> problems_;
};

// As in Megatron, --save-interval, --exit-interval and --exit-duration-in-mins may be given in a
// run that saves nothing.
void require_save(const config::TrainFlags& flags) {
    const config::CheckpointFlags& saves = flags.checkpoints;
    if (saves.save_interval)
        warn("--save-interval: without --save DIR, this run saves no checkpoint");
    Needs needs("--save DIR");
    if (!flags.action.benchmark)
        needs.refuse(!flags.stopping.save_switch.empty(), "--save-switch-path");
    using config::Reaction;
    needs.refuse(flags.stopping.reaction_to_spike() == Reaction::stop, "--on-spike stop");
    needs.refuse(flags.stopping.reaction_to_spike() == Reaction::roll_back, "--on-spike rollback");
    needs.refuse(flags.stopping.reaction_to_nan() == Reaction::roll_back, "--on-nan rollback");
    needs.refuse(!saves.save_schedule.empty(), "--save-schedule");
    needs.refuse(!saves.save_retain.empty(), "--save-retain");
    needs.refuse(saves.save_retain_interval.has_value(), "--save-retain-interval");
    needs.refuse(saves.save_required, "--save-required");
    needs.refuse(!saves.local_save.empty(), "--local-save");
    needs.throw_problems();
}

std::optional<ckpt::PruneRules> retain_of(const config::CheckpointFlags& flags) {
    constexpr std::string_view interval_flag = "--save-retain-interval";
    const std::optional<i64>& interval = flags.save_retain_interval;
    if (!interval) {
        if (flags.save_retain.empty()) return std::nullopt;
        return parse_retain(flags.save_retain);
    }
    if (!flags.save_retain.empty())
        usage_error(interval_flag, "cannot be combined with --save-retain: give one of the two");
    check_at_least(interval_flag, *interval, 1);
    if (flags.save_interval && *interval % *flags.save_interval != 0) {
        usage_error(interval_flag, "{} is not a multiple of --save-interval {}", *interval,
                    *flags.save_interval);
    }
    return parse_retain(fmt::format("keep-last=1,keep-every={}", *interval));
}

std::vector<spec::SaveRange> ranges_of(const config::CheckpointFlags& flags) {
    check_at_least("--save-interval", flags.save_interval, 1);
    if (flags.save_interval && !flags.save_schedule.empty()) {
        usage_error("--save-schedule",
                    "cannot be combined with --save-interval: give one of the two");
    }
    if (flags.save_interval) return {{.interval = *flags.save_interval, .until = 0}};
    if (flags.save_schedule.empty()) return {};
    return spec::parse_save_schedule(flags.save_schedule);
}

}  // namespace

ckpt::PruneRules parse_retain(const std::string& text) {
    ckpt::PruneRules rules;
    std::string name;
    std::string value;
    for (const std::string& item : split(text)) {
        const size_t equals = item.find('=');
        if (equals == item.npos) {
            // The item is another value of the previous rule: "7" of "keep=5,7".
            if (name.empty()) {
                usage_error(retain_flag, "expected RULE=VALUE, such as keep-last=2, got '{}'",
                            item);
            }
            value += "," + item;
            continue;
        }
        if (!name.empty()) add_rule(rules, name, value);
        name = item.substr(0, equals);
        value = item.substr(equals + 1);
    }
    add_rule(rules, name, value);
    return rules;
}

SaveRules rules_of_steps(const config::CheckpointFlags& flags) {
    return {.ranges = ranges_of(flags), .retain = retain_of(flags)};
}

void check_local_save_flags(const config::CheckpointFlags& saves) {
    if (saves.local_save.empty() && saves.local_save_interval)
        usage_error("--local-save-interval", "needs --local-save DIR");
    if (saves.local_save.empty()) return;
    if (!saves.local_save_interval) usage_error("--local-save", "needs --local-save-interval K");
    check_at_least("--local-save-interval", *saves.local_save_interval, 1);
}

SaveRules resolve_saves(const config::TrainFlags& flags) {
    const config::CheckpointFlags& saves = flags.checkpoints;
    SaveRules rules = rules_of_steps(saves);
    if (saves.save_failures < 1)
        usage_error("--save-failures", "must be at least 1, got {}", saves.save_failures);
    rules.retry_s = parse_duration("--save-retry", saves.save_retry);
    const std::string& before = flags.stopping.exit_before_limit;
    if (before != "off") {
        const double before_s = parse_duration("--exit-before-limit", before);
        if (!saves.save.empty() && !flags.action.benchmark) rules.before_limit_s = before_s;
    }
    if (saves.save.empty()) require_save(flags);
    return rules;
}

void check_load_flags(const config::CheckpointFlags& flags) {
    if (flags.fresh && flags.exit_on_missing) {
        usage_error("--fresh",
                    "cannot be combined with --exit-on-missing-checkpoint: give one of the two");
    }
    if (flags.use_saved_schedule && flags.override_schedule) {
        usage_error("--use-checkpoint-opt_param-scheduler",
                    "cannot be combined with --override-opt_param-scheduler: give one of the two");
    }
    if (!flags.load.empty() || !flags.pretrained.empty()) return;
    Needs needs("--load DIR");
    needs.refuse(flags.exit_on_missing, "--exit-on-missing-checkpoint");
    needs.refuse(flags.load_step.has_value(), "--ckpt-step");
    needs.refuse(flags.fresh, "--fresh");
    needs.refuse(flags.finetune, "--finetune");
    needs.refuse(flags.no_load_optim, "--no-load-optim");
    needs.throw_problems();
}

void apply_load_step(config::CheckpointFlags& flags) {
    if (!flags.load_step || flags.load.empty()) return;
    if (ckpt::is_step(flags.load)) {
        usage_error("--ckpt-step", "--load {} names a step already: omit --ckpt-step", flags.load);
    }
    flags.load += "/" + ckpt::step_name(*flags.load_step);
}

i64 save_buffer_limit(const config::TrainFlags& flags) {
    const config::CheckpointFlags& saves = flags.checkpoints;
    i64 limit = INT64_MAX;
    if (!saves.async_save_buffer.empty()) {
        limit = parse_size("--async-save-buffer", saves.async_save_buffer);
        if (limit < 1) usage_error("--async-save-buffer", "is 0: give --async-save off");
    }
    const bool saves_in_background = saves.async_save == "on" && !saves.save.empty();
    return saves_in_background && !flags.action.benchmark ? limit : 0;
}

}  // namespace lm::train
