// SPDX-License-Identifier: Apache-2.0
#include "train/loop/loop_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"

namespace lm::train {
namespace {

bool due(const std::optional<i64>& interval, i64 iteration) {
    return interval && iteration % *interval == 0;
}

bool due(const std::vector<spec::SaveRange>& schedule, i64 iteration) {
    for (const spec::SaveRange& range : schedule) {
        if (range.until != 0 && iteration > range.until) continue;
        return iteration % range.interval == 0 || iteration == range.until;
    }
    return false;
}

}  // namespace

const config::IterationRange* skipped_range(const LoopRules& rules, i64 iteration) {
    for (const config::IterationRange& range : rules.skip) {
        if (range.contains(iteration)) return &range;
    }
    return nullptr;
}

bool should_check_replicas(const LoopRules& rules, const LoopState& now) {
    return due(rules.check_replicas, now.done.iteration);
}

bool should_log(const LoopRules& rules, const LoopState& now) {
    return now.done.iteration % rules.log_interval == 0 || now.finished;
}

bool should_save(const LoopRules& rules, const LoopState& now) {
    if (!rules.saves) return false;
    return due(rules.saved, now.done.iteration) || now.save_switch ||
           should_stop(rules, now) != Stop::no;
}

bool should_save_locally(const LoopRules& rules, const LoopState& now) {
    return rules.saves && due(rules.local_save_interval, now.done.iteration) &&
           should_stop(rules, now) == Stop::no;
}

bool evaluation_due(const LoopRules& rules, const LoopState& now) {
    return rules.evaluates && (now.done.iteration % rules.eval_interval == 0 || now.finished);
}

bool should_evaluate(const LoopRules& rules, const LoopState& now) {
    const Stop stop = should_stop(rules, now);
    if (stop == Stop::signal || stop == Stop::kill_switch) return false;
    return evaluation_due(rules, now) &&
           (now.finished || near_limit(rules, now, now.evaluation_s) == Stop::no);
}

bool should_test(const LoopRules& rules, const LoopState& now) {
    return rules.tests && should_stop(rules, now) == Stop::finished;
}

Stop should_stop(const LoopRules& rules, const LoopState& now) {
    if (now.kill_switch) return Stop::kill_switch;
    if (now.finished) return Stop::finished;
    if (rules.exit_iteration && now.done.iteration >= *rules.exit_iteration) {
        return Stop::exit_iteration;
    }
    if (rules.exit_samples && now.done.samples >= *rules.exit_samples) return Stop::exit_samples;
    if (now.stop_signal) return Stop::signal;
    if (rules.exit_interval && now.run_iterations >= *rules.exit_interval)
        return Stop::exit_interval;
    return near_limit(rules, now, now.step_s + (evaluation_due(rules, now) ? now.evaluation_s : 0));
}

Stop should_end_evaluation(const LoopRules& rules, const LoopState& now) {
    if (now.kill_switch) return Stop::kill_switch;
    if (now.stop_signal) return Stop::signal;
    // After the last iteration, only a resumed run could repeat an evaluation that a limit has
    // ended. A run without saves cannot be resumed, so its last evaluation may exceed the limit.
    if (now.finished && !rules.saves) return Stop::no;
    return near_limit(rules, now, 0);
}

Stop near_limit(const LoopRules& rules, const LoopState& now, double ahead_s) {
    if (now.run_iterations == 0) return Stop::no;
    const double needed_s = ahead_s + now.save_s;
    if (rules.exit_duration_s && now.elapsed_s + needed_s >= *rules.exit_duration_s)
        return Stop::duration;
    const bool job_ends = rules.before_job_end_s && now.job_end_unix_s > 0;
    if (job_ends && now.unix_s + needed_s >= now.job_end_unix_s - *rules.before_job_end_s)
        return Stop::job_limit;
    return Stop::no;
}

bool must_end_now(Stop stop) {
    return stop == Stop::signal || stop == Stop::duration || stop == Stop::job_limit ||
           stop == Stop::kill_switch;
}

Exit exit_code(Stop stop) {
    switch (stop) {
        case Stop::no:
        case Stop::finished:
        case Stop::exit_iteration:
        case Stop::exit_samples:
            return Exit::done;
        case Stop::signal:
        case Stop::exit_interval:
        case Stop::duration:
        case Stop::job_limit:
            return Exit::run_again;
        case Stop::kill_switch:
            return Exit::do_not_run_again;
    }
    return Exit::bug;
}

std::string stopped_text(const config::CheckpointFlags& checkpoints, i64 iteration, i64 total) {
    const std::string where = fmt::format("stopped after iteration {} of {}", iteration, total);
    if (checkpoints.save.empty()) {
        return where + ": nothing was saved, since --save is not given";
    }
    if (checkpoints.load == checkpoints.save || checkpoints.finetune) {
        return where + ": rerun the same command to resume";
    }
    return fmt::format("{}: rerun the same command with --load {} to resume", where,
                       checkpoints.save);
}

std::string stop_note(Stop stop, const config::StoppingFlags& flags,
                      const config::CheckpointFlags& checkpoints, i64 iteration, i64 total) {
    const std::string where = fmt::format("stopped after iteration {} of {}", iteration, total);
    const std::string again = stopped_text(checkpoints, iteration, total);
    switch (stop) {
        case Stop::kill_switch:
            return fmt::format("--kill-switch-path: {} exists: {}: remove the file to resume",
                               flags.kill_switch, where);
        case Stop::exit_interval:
            return fmt::format("--exit-interval {}: {}", *flags.exit_interval, again);
        case Stop::duration:
            return fmt::format("--exit-duration-in-mins {}: {}", *flags.exit_duration_min, again);
        case Stop::job_limit:
            return fmt::format("--exit-before-limit {}: the job ends soon: {}",
                               flags.exit_before_limit, again);
        case Stop::exit_iteration:
            return fmt::format("--exit-iteration {}: {}", *flags.exit_iteration, where);
        case Stop::exit_samples:
            return fmt::format("--exit-samples {}: {}", *flags.exit_samples, where);
        case Stop::no:
        case Stop::finished:
        case Stop::signal:
            break;
    }
    return {};
}

}  // namespace lm::train
