// SPDX-License-Identifier: Apache-2.0
#include "train/save/retention.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "ckpt/history/lineage.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/verify.hpp"
#include "io/file.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

constexpr std::string_view flag = "--save-retain";

}  // namespace

Retention::~Retention() {
    stopped_ = true;
    join();
}

void Retention::start(i64 step) {
    if (step_ >= 0) return;
    std::string manifest;
    if (world_.rank() == 0 && !busy_) manifest = manifest_to_verify(step);
    manifest = parallel::broadcast_text(world_, manifest);
    if (manifest.empty()) return;
    step_ = step;
    report_ = {};
    run([this, step, manifest] {
        report_.add(world_.rank(), [&] { verify_own_share(step, manifest); });
    });
}

void Retention::delete_if_verified(bool any_busy) {
    if (!any_busy) conclude();
}

void Retention::finish(i64 step) {
    conclude();
    join();
    if (step < 0 || step == applied_to_) return;
    start(step);
    conclude();
    join();
}

// Runs `body` on thread_, or on the calling thread when no thread can be created.
template <typename Body>
void Retention::run(const Body& body) {
    join();
    busy_ = true;
    const auto work = [this, body] {
        body();
        busy_ = false;
    };
    try {
        thread_ = start_thread(work);
    } catch (const Error&) {
        work();
    }
}

void Retention::join() {
    if (thread_.joinable()) thread_.join();
}

// Returns the manifest of `step`. Returns an empty text when no rule removes a step or its
// optimizer state, and after an error. Call it on rank 0.
std::string Retention::manifest_to_verify(i64 step) const {
    try {
        const std::vector<i64> steps = ckpt::steps_in(generation_.directory);
        // The names of the directories suffice here, because an incomplete step among them can only
        // cause a verification that is not needed.
        const bool removes =
            !rules_.keep.empty() && !ckpt::steps_to_remove(steps, rules_.keep, step).empty();
        const bool reduces = rules_.full_steps && *rules_.full_steps < std::ssize(steps);
        if (!removes && !reduces) return {};
        return io::read_file(fmt::format("{}/{}/{}", generation_.directory, ckpt::step_name(step),
                                         ckpt::manifest_file));
    } catch (const Error& error) {
        warn("{}: {}: no checkpoint is deleted before the next save", flag, error.what());
        return {};
    }
}

void Retention::verify_own_share(i64 step, const std::string& manifest) {
    const ckpt::Verification result = ckpt::verify_share(
        generation_.directory + "/" + ckpt::step_name(step), {world_.rank(), world_.size()},
        manifest, [this](i64) { return !stopped_; });
    if (stopped_) return;  // by the destructor
    if (!result.problems.empty()) throw Error(Exit::failure, result.problems.front().line());
}

// Waits until all ranks have verified their shares. If no rank has found a problem, starts to
// delete steps.
void Retention::conclude() {
    if (step_ < 0) return;
    join();
    applied_to_ = std::exchange(step_, -1);
    try {
        join_reports(world_, report_);
        train::conclude(world_, report_);
    } catch (const JointError& error) {
        if (world_.rank() == 0)
            warn("{}: {}: no checkpoint is deleted before the next save", flag, error.what());
        return;
    }
    if (world_.rank() == 0) run([this, step = applied_to_] { remove_others(step); });
}

void Retention::remove_others(i64 step) const {
    try {
        const std::string& directory = generation_.directory;
        const ckpt::Lineage lineage = ckpt::read_lineage(directory);
        std::vector<i64> complete;
        for (const ckpt::StepEntry& entry : lineage.steps) {
            if (entry.step <= step && lineage.current(entry)) complete.push_back(entry.step);
        }
        const ckpt::PrunePlan plan = ckpt::plan_prune(directory, lineage, complete, rules_);
        if (plan.actions.empty() || plan.newest != step) return;
        ckpt::check_not_superseded(generation_);
        ckpt::prune(directory, plan, [&directory](const ckpt::PruneAction& action) {
            note("{}: {}/{}: {}", flag, directory, action.name,
                 action.kind == ckpt::PruneKind::step ? "deleted" : "optimizer state deleted");
        });
    } catch (const std::exception& error) {
        warn("{}: {}: other checkpoints are deleted after the next save", flag, error.what());
    }
}

}  // namespace lm::train
