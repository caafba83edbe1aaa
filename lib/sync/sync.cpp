// SPDX-License-Identifier: Apache-2.0
#include "sync/sync.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/run_logs.hpp"
#include "ckpt/history/step_lock.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/copy.hpp"
#include "ckpt/verbs/verify.hpp"
#include "io/append_file.hpp"
#include "io/directory.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "sync/destination_check.hpp"
#include "sync/sync_plan.hpp"

namespace lm::sync {
namespace {

constexpr std::string_view outgoing_directory = ".sync-outgoing";

class Sync {
  public:
    Sync(const SyncRequest& request, SyncTarget& target, const std::string& state)
        : request_(request),
          target_(target),
          state_(state),
          cache_(state + "/manifests"),
          outgoing_(fmt::format("{}/{}", state, outgoing_directory)) {}

    // Does the sync. Returns a report of all actions, even if a transfer failed.
    SyncReport run() {
        try {
            sync_all();
        } catch (const Error& error) {
            if (error.code() != Exit::failure) throw;
            report_.failed.emplace_back(error.what());
        }
        try {
            io::remove_tree(outgoing_);
        } catch (const Error& error) {
            warn("{}", error.what());
        }
        return report_;
    }

  private:
    void sync_all() {
        from_ = ckpt::read_lineage(request_.source);
        from_.candidates();  // throws when the current branch is unknown
        if (target_.is_remote()) again([&] { check_files(request_, target_); });
        read_target();
        check_runs(request_, from_, to_);
        report_damaged_manifests();
        const std::string problem = ckpt::problem_of_latest(request_.source, from_);
        if (!problem.empty())
            report_.failed.push_back(problem + ": nothing was removed in the backup");
        may_remove_ = problem.empty();
        for (const PlannedStep& step : plan_sync(from_, to_, request_.rules.keep)) {
            sync_step(step);
        }
        if (!report_.copied.empty() || !report_.removed.empty()) read_target();
        set_latest();
        if (may_remove_) {
            set_branches_aside();
            retain();
        }
        for (const ckpt::RunLog& log : ckpt::logs_matching(request_.logs)) {
            again([&] { target_.send_file(log.path, "logs/" + log.name); });
            ++report_.n_logs;
        }
    }

    // A step whose manifest is damaged is in no plan. Without a manifest file, the directory is no
    // step of lm-utils.
    void report_damaged_manifests() {
        for (const ckpt::StepEntry& entry : from_.steps) {
            if (!entry.manifest &&
                io::exists(fmt::format("{}/{}", entry.path, ckpt::manifest_file)))
                report_.failed.push_back(entry.reason);
        }
    }

    // Calls `transfer`. When it throws Error(failure), calls it again, at most `retries` times. A
    // repeated call of send_step() continues the interrupted transfer.
    void again(const std::function<void()>& transfer) const {
        for (i64 attempt = 1;; ++attempt) {
            try {
                return transfer();
            } catch (const Error& error) {
                if (error.code() != Exit::failure) throw;
                if (attempt > request_.retries) {
                    if (!target_.is_remote()) throw;
                    throw Error(Exit::failure, fmt::format("{}: run lm-ckpt sync again to continue",
                                                           error.what()));
                }
                warn("{}: attempt {} of {} follows", error.what(), attempt + 1,
                     request_.retries + 1);
                std::this_thread::sleep_for(std::chrono::seconds(attempt));
            }
        }
    }

    // Returns a callback that reports the progress of `what`, if the request has a callback.
    std::function<void(i64, i64)> shown(const std::string& what) const {
        return [this, what](i64 done, i64 total) {
            if (request_.progress) request_.progress(what, done, total);
        };
    }

    // Reports the following operations of the target under the name `what`.
    void show(const std::string& what) {
        if (!request_.progress) return;
        request_.progress(what, 0, 0);
        target_.set_progress(shown(what));
    }

    void read_target() {
        again([&] { directory_ = target_.manifests(cache_); });
        to_ = ckpt::read_lineage(directory_);
    }

    void sync_step(const PlannedStep& step) {
        const bool present = step.action == SyncAction::present;
        if (present) report_.present.push_back(step.entry->step);
        if (present && !request_.verify) return;
        try {
            const auto lock = ckpt::StepLock::to_read(step.entry->path);
            present ? verify(*step.entry) : copy(step);
        } catch (const Error& error) {
            const std::string& path = step.entry->path;
            if (!io::exists(path + "/" + std::string(ckpt::manifest_file))) {
                note("{}: was deleted during the sync: not copied", path);
                return;
            }
            report_.failed.emplace_back(error.what());
        }
    }

    void copy(const PlannedStep& planned) {
        const ckpt::StepEntry& entry = *planned.entry;
        const Outgoing step = outgoing(entry);
        const std::string name = ckpt::step_name(entry.step);
        const auto verified = shown("verify " + name);
        const ckpt::Verification result =
            ckpt::verify(step.path, [&](i64 done) { verified(done, step.bytes); });
        if (!result.problems.empty()) {
            if (io::exists(entry.path + "/" + std::string(ckpt::manifest_file))) {
                for (ckpt::Problem problem : result.problems) {
                    // Names the file of the source, not the link to it.
                    if (problem.file.starts_with(step.path))
                        problem.file.replace(0, step.path.size(), entry.path);
                    warn("{}", problem.line());
                }
            }
            run_error(entry.path, "is corrupt: not copied");
        }
        if (may_remove_ && !request_.rules.keep.empty()) make_room(step, entry.step);
        target_.require_space(step.path);
        if (planned.action == SyncAction::replace) {
            set_aside(entry.step, entry.manifest->generation);
        }
        show("copy " + name);
        again([&] { target_.send_step(step.path); });
        report_.copied.push_back(entry.step);
        report_.bytes += step.bytes;
    }

    // A directory that is sent as a step.
    struct Outgoing {
        std::string path;
        std::string digest;  // of its manifest
        i64 bytes = 0;       // of its files
    };

    // Returns the step itself, or with weights_only a directory of links to its weights, which has
    // the manifest of a step without optimizer state.
    Outgoing outgoing(const ckpt::StepEntry& entry) const {
        if (!request_.weights_only)
            return {entry.path, entry.manifest->digest, ckpt::tree_bytes(entry.path)};
        const ckpt::CopyPlan plan = ckpt::plan_copy(ckpt::Checkpoint::open(entry.path), true);
        const std::string path = fmt::format("{}/{}", outgoing_, ckpt::step_name(entry.step));
        io::remove_tree(outgoing_);
        ckpt::link(plan, io::make_directories_in(state_, fmt::format("{}/{}", outgoing_directory,
                                                                     ckpt::step_name(entry.step))));
        i64 bytes = plan.n_bytes();
        for (const auto& [name, text] : plan.documents) bytes += std::ssize(text);
        return {path, ckpt::digest_of_manifest(plan.documents.back().second), bytes};
    }

    // Removes the steps of the target that its rules will remove after this copy anyway, the oldest
    // first, until the copy fits. The newest step of the target, from which a run would go on,
    // stays until the copy is complete.
    void make_room(const Outgoing& step, i64 number) {
        std::vector<i64> steps = current_steps();
        steps.insert(steps.end(), report_.copied.begin(), report_.copied.end());
        if (steps.empty()) return;
        const i64 newest = std::ranges::max(steps);
        steps.push_back(number);
        for (const i64 old : ckpt::steps_to_remove(steps, request_.rules.keep, newest)) {
            if (old == number) continue;
            if (has_space(step)) return;
            remove(old);
        }
    }

    bool has_space(const Outgoing& step) const {
        bool has = true;
        again([&] { has = target_.has_space(step.path, step.bytes); });
        return has;
    }

    void remove(i64 step) {
        const std::string name = ckpt::step_name(step);
        show("remove " + name);
        target_.remove_step(name);
        report_.removed.push_back(step);
    }

    // Returns the complete steps of the target's current branch, ascending.
    std::vector<i64> current_steps() const {
        std::vector<i64> steps;
        for (const ckpt::StepEntry& entry : to_.steps) {
            if (to_.current(entry)) steps.push_back(entry.step);
        }
        return steps;
    }

    // Compares the bytes of the copy at the target with the step that would be sent. Skips a copy
    // that has optimizer state, or lacks it, unlike that step.
    void verify(const ckpt::StepEntry& entry) {
        const ckpt::Manifest& copy = *ckpt::find_step(to_.steps, entry.step)->manifest;
        const Outgoing step = outgoing(entry);
        if (copy.digest != step.digest) return;
        bool same = false;
        show("verify the copy of " + ckpt::step_name(entry.step));
        again([&] { same = target_.same_bytes(step.path); });
        if (same) {
            report_.verified.push_back(entry.step);
            return;
        }
        report_.failed.push_back(
            fmt::format("{}/{}: differs from its source {}: delete the copy, then sync again",
                        request_.destination, ckpt::step_name(entry.step), entry.path));
    }

    // Sets `latest` of the target to the newest of its steps that is on the source's current
    // branch.
    void set_latest() {
        const ckpt::Manifest* newest = nullptr;
        for (const ckpt::StepEntry& entry : to_.steps) {
            if (entry.manifest && from_.tip && on_branch(*entry.manifest, *from_.tip))
                newest = &*entry.manifest;
        }
        if (!newest) return;
        const ckpt::Tip tip = ckpt::tip_of(*newest);
        if (to_.latest == tip.step.iteration && to_.tip && to_.tip->step == tip.step) return;
        if (directory_ != cache_) {
            ckpt::set_latest(directory_, tip);
        } else {
            ckpt::set_latest(cache_, tip);
            again([&] {
                target_.send_file(fmt::format("{}/{}", cache_, ckpt::latest_file),
                                  std::string(ckpt::latest_file));
            });
        }
        to_ = ckpt::read_lineage(directory_);
    }

    // Sets aside the steps of this run at the target that a rollback at the source has abandoned.
    // Otherwise, if the target's `latest` were lost, a run would load the newest of these steps.
    void set_branches_aside() {
        if (!from_.tip || from_.tip->lineage.empty()) return;
        const ckpt::LineageEntry& newest = from_.tip->lineage.back();
        bool renamed = false;
        for (const ckpt::StepEntry& entry : to_.steps) {
            const bool abandoned = entry.manifest && entry.manifest->run_id == newest.run_id &&
                                   !on_branch(*entry.manifest, *from_.tip);
            if (!abandoned) continue;
            set_aside(entry.step, newest.generation);
            renamed = true;
        }
        if (renamed) read_target();
    }

    // Renames a step of the target to abandoned-gN/global_stepM. If the target has this name
    // already, the new name gets the suffix ".2", ".3", ..., as in ckpt::set_aside().
    void set_aside(i64 step, i64 generation) {
        const std::string name = ckpt::step_name(step);
        const std::string to = fmt::format("{}{}/{}", ckpt::abandoned_prefix, generation, name);
        std::string free = to;
        for (int n = 2; has_directory(free); ++n) free = fmt::format("{}.{}", to, n);
        again([&] { target_.rename(name, free); });
        report_.set_aside.push_back(step);
    }

    bool has_directory(const std::string& name) const {
        bool found = false;
        again([&] { found = target_.has_directory(name); });
        return found;
    }

    void retain() {
        const ckpt::PrunePlan plan =
            ckpt::plan_prune(directory_, to_, current_steps(), request_.rules);
        for (const ckpt::PruneAction& action : plan.actions) {
            const i64 step = ckpt::step_from_name(action.name);
            if (action.kind == ckpt::PruneKind::optimizer_state) {
                show("remove " + action.name);
                target_.drop_state(action.name);
                report_.state_removed.push_back(step);
            } else {
                remove(step);
            }
        }
    }

    const SyncRequest& request_;
    SyncTarget& target_;
    std::string state_;
    std::string cache_;
    std::string outgoing_;
    std::string directory_;  // holds `latest` and the manifests of the target
    ckpt::Lineage from_, to_;
    bool may_remove_ = true;  // false: the source has lost steps, which the destination may have
    SyncReport report_;
};

// Returns the directory that holds the lock and, for a remote destination, the manifests of the
// destination. The directory is not in the source, which may be read-only.
std::string state_directory(const SyncTarget& target, const std::string& destination) {
    if (!target.is_remote()) return destination;
    const auto variable = [](const char* name) {
        const char* const value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
    std::string caches = variable("XDG_CACHE_HOME");
    if (caches.empty() && !variable("HOME").empty()) caches = variable("HOME") + "/.cache";
    if (caches.empty()) caches = fmt::format("/var/tmp/lm-utils-{}", ::geteuid());
    return fmt::format("{}/lm-utils/sync-{:016x}", caches,
                       hash64(io::without_trailing_slashes(destination)));
}

}  // namespace

std::optional<SyncReport> sync(const SyncRequest& request) {
    const auto target = SyncTarget::open(
        request.destination,
        {.bytes_per_second = request.bytes_per_second, .follow_links = request.weights_only});
    check_place(request, *target);
    // Before the lock, which is a file in a local destination. sync_to() checks a remote one.
    if (!target->is_remote()) check_files(request, *target);
    const std::string state = state_directory(*target, request.destination);
    io::make_directories(state);
    auto lock = io::AppendFile::open(fmt::format("{}/{}", state, lock_file));
    if (!lock.lock()) return std::nullopt;
    if (request.rules.full_steps && !target->can_drop_state()) {
        usage_error("--weights-only-older-than",
                    "expected a local directory as DEST, got {}: lm-ckpt sync cannot rewrite steps "
                    "at a remote destination: omit the option, or run lm-ckpt prune DIR "
                    "--weights-only-older-than K where DEST is a local directory",
                    request.destination);
    }
    return sync_to(*target, request, state);
}

SyncReport sync_to(SyncTarget& target, const SyncRequest& request, const std::string& state) {
    return Sync(request, target, state).run();
}

}  // namespace lm::sync
