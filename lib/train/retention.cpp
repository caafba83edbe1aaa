// SPDX-License-Identifier: Apache-2.0
#include "train/retention.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "ckpt/damage.hpp"
#include "ckpt/lineage.hpp"
#include "ckpt/steps.hpp"
#include "ckpt/verify.hpp"

namespace lm::train {
namespace {

constexpr std::string_view flag = "--save-retain";

i64 at_least_one(const std::string& rule, const std::string& value) {
    const i64 number = parse_count(flag, value);
    if (number < 1) usage_error(flag, "{}: expected at least 1, got {}", rule, value);
    return number;
}

// Returns the values between the commas.
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
            rules.keep.steps.push_back(parse_count(flag, step));
        }
    } else if (name == "keep-schedule") {
        rules.keep.schedule = spec::parse_save_schedule(value);
    } else if (name == "weights-only-older-than") {
        rules.full_steps = at_least_one(name, value);
    } else {
        usage_error(flag,
                    "'{}' is not one of keep-last, keep-every, keep, keep-schedule and "
                    "weights-only-older-than",
                    name);
    }
}

// Verifies every byte of the step. Returns false when `stopped` became true before the end. Throws
// DamageError when the step is corrupt.
bool verify(const std::string& path, const std::atomic<bool>& stopped) {
    struct Stopped {};
    try {
        const ckpt::Verification result = ckpt::verify(path, [&](i64) {
            if (stopped) throw Stopped();
        });
        if (!result.problems.empty())
            throw ckpt::DamageError(Exit::failure, result.problems.front().line());
    } catch (const Stopped&) {
        return false;
    }
    return true;
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
            if (name.empty()) usage_error(flag, "'{}' is not RULE=VALUE", item);
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

void Retention::start(i64 step) {
    if (busy_) return;
    finish();
    busy_ = true;
    stopped_ = false;
    thread_ = start_thread([this, step] {
        try {
            apply(step);
        } catch (const std::exception& error) {
            warn("--save-retain: {}: the next save tries again", error.what());
        }
        busy_ = false;
    });
}

void Retention::apply(i64 step) {
    const std::string& directory = generation_.directory;
    const ckpt::Lineage lineage = ckpt::read_lineage(directory);
    std::vector<i64> complete;
    for (const ckpt::StepEntry& entry : lineage.steps) {
        if (entry.step <= step && lineage.current(entry)) complete.push_back(entry.step);
    }
    const ckpt::PrunePlan plan = ckpt::plan_prune(directory, lineage, complete, rules_);
    if (plan.actions.empty() || plan.newest != step) return;
    if (!verify(directory + "/" + ckpt::step_name(step), stopped_)) return;
    ckpt::check_not_superseded(generation_);
    ckpt::prune(directory, plan, [&directory](const ckpt::PruneAction& action) {
        note("--save-retain: {}/{}: {}", directory, action.name,
             action.kind == ckpt::PruneKind::step ? "deleted" : "optimizer state deleted");
    });
}

void Retention::finish() {
    if (thread_.joinable()) thread_.join();
}

void Retention::stop() {
    stopped_ = true;
    finish();
}

}  // namespace lm::train
