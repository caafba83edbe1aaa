// SPDX-License-Identifier: Apache-2.0
#include "train/retention.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/steps.hpp"

namespace lm::train {
namespace {

constexpr std::string_view flag = "--save-retain";

void add_rule(ckpt::KeepPolicy& policy, const std::string& rule) {
    const size_t equals = rule.find('=');
    if (equals == rule.npos) usage_error(flag, "'{}' is not RULE=VALUE", rule);
    const std::string name = rule.substr(0, equals);
    const std::string value = rule.substr(equals + 1);
    if (name == "keep") return policy.steps.push_back(parse_count(flag, value));
    i64* const target = name == "keep-last"    ? &policy.last
                        : name == "keep-every" ? &policy.every
                                               : nullptr;
    if (target == nullptr) {
        usage_error(flag, "'{}' is not one of keep-last, keep-every, keep", name);
    }
    *target = parse_count(flag, value);
    if (*target < 1) usage_error(flag, "'{}': expected at least 1", rule);
}

// Reads every slice of the step. Returns false when `stopped` ended it. Throws at damage.
bool verify(const std::string& path, const std::atomic<bool>& stopped) {
    const auto checkpoint = ckpt::Checkpoint::open(path);
    for (const ckpt::IndexPart& part : checkpoint.parts()) {
        for (const ckpt::Slice& slice : part.slices) {
            if (stopped) return false;
            checkpoint.check(slice);
        }
    }
    return true;
}

}  // namespace

ckpt::KeepPolicy parse_retain(const std::string& text) {
    ckpt::KeepPolicy policy;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        add_rule(policy, text.substr(begin, end - begin));
        begin = end + 1;
    }
    return policy;
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
    std::vector<i64> steps = ckpt::steps_in(directory);
    std::erase_if(steps, [step](i64 other) { return other > step; });
    const std::vector<i64> removed = ckpt::steps_to_remove(steps, policy_, step);
    if (removed.empty() || !verify(directory + "/" + ckpt::step_name(step), stopped_)) return;
    for (const i64 old : removed) {
        if (stopped_) return;
        ckpt::check_not_superseded(generation_);
        ckpt::remove_step(directory, old);
        note("--save-retain: {}/{}: deleted", directory, ckpt::step_name(old));
    }
    ckpt::finish_removals(directory);
}

void Retention::finish() {
    if (thread_.joinable()) thread_.join();
}

void Retention::stop() {
    stopped_ = true;
    finish();
}

}  // namespace lm::train
