// SPDX-License-Identifier: Apache-2.0
// lm-ckpt sync: backs up a directory of steps, from cron. Copies only missing steps. Removes steps
// at the destination only by the rules of the options (--keep-last and others).
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "ckpt/abandon.hpp"
#include "ckpt/leftovers.hpp"
#include "ckpt/step_lock.hpp"
#include "ckpt/steps.hpp"
#include "cli/main.hpp"
#include "io/append_file.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "keep_options.hpp"
#include "logs.hpp"
#include "paths.hpp"
#include "sync_target.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string source;
    std::string destination;
    std::vector<std::string> logs;
    RuleFlags rules;
    bool verify = false;
    std::optional<cli::Bytes> bwlimit;
    i64 retries = 3;
};

// The result, printed as a JSON line at the end.
struct Report {
    std::vector<i64> copied, present, verified, removed, state_removed, set_aside;
    i64 bytes = 0;
    i64 n_logs = 0;
    std::vector<std::string> failed;  // one text for each step that was not copied, or is corrupt

    std::string line(const Args& args, double seconds) const {
        return io::json_line({{"source", args.source},
                              {"destination", args.destination},
                              {"copied", copied},
                              {"bytes", bytes},
                              {"present", present},
                              {"verified", verified},
                              {"removed", removed},
                              {"optimizer_state_removed", state_removed},
                              {"set_aside", set_aside},
                              {"logs", n_logs},
                              {"failed", failed},
                              {"seconds", seconds}});
    }
};

// Returns whether two manifests belong to the same step; one of them may be a copy without
// optimizer state.
bool same_step(const ckpt::Manifest& a, const ckpt::Manifest& b) {
    return a.counters.iteration == b.counters.iteration && a.generation == b.generation &&
           a.run_id == b.run_id && a.created == b.created;
}

const ckpt::StepEntry* find(const ckpt::Lineage& lineage, i64 step) {
    const auto found = std::ranges::find(lineage.steps, step, &ckpt::StepEntry::step);
    return found == lineage.steps.end() ? nullptr : &*found;
}

class Sync {
  public:
    Sync(const Args& args, std::string source, std::string state, SyncTarget& target)
        : args_(args),
          rules_(parse_rules(args.rules)),
          source_(std::move(source)),
          cache_(state + "/manifests"),
          target_(target) {}

    Report run() {
        from_ = ckpt::read_lineage(source_);
        from_.candidates();  // throws when the current branch is unknown
        read_target();
        for (const i64 step : wanted()) sync_step(step);
        if (!report_.copied.empty()) read_target();
        set_latest();
        retain();
        for (const LogFile& log : logs_matching(args_.logs)) {
            again([&] { target_.send_file(log.path, "logs/" + log.name); });
            ++report_.n_logs;
        }
        return report_;
    }

  private:
    // Calls `transfer`; after an Error(failure) calls it again, at most --retries times. A repeated
    // call continues the interrupted transfer.
    void again(const std::function<void()>& transfer) const {
        for (i64 attempt = 1;; ++attempt) {
            try {
                return transfer();
            } catch (const Error& error) {
                if (error.code() != Exit::failure || attempt > args_.retries) throw;
                warn("{}: attempt {} of {}", error.what(), attempt + 1, args_.retries + 1);
                std::this_thread::sleep_for(std::chrono::seconds(attempt));
            }
        }
    }

    void read_target() {
        again([&] { directory_ = target_.manifests(cache_); });
        to_ = ckpt::read_lineage(directory_);
    }

    bool at_target(const ckpt::StepEntry& entry) const {
        const ckpt::StepEntry* other = find(to_, entry.step);
        return other && other->manifest && same_step(*entry.manifest, *other->manifest);
    }

    // Returns the steps of the current branch that the rules keep: a step that they would remove at
    // once is not copied.
    std::vector<i64> wanted() const {
        std::vector<i64> all;
        for (const ckpt::StepEntry& entry : from_.steps) {
            if (from_.current(entry)) all.push_back(entry.step);
        }
        for (const ckpt::StepEntry& entry : to_.steps) {
            if (entry.manifest && from_.tip && on_branch(*entry.manifest, *from_.tip))
                all.push_back(entry.step);
        }
        std::ranges::sort(all);
        all.erase(std::unique(all.begin(), all.end()), all.end());
        std::vector<i64> removed;
        if (!rules_.keep.empty()) {
            removed = ckpt::steps_to_remove(all, rules_.keep, from_.latest);
        }
        std::erase_if(all, [&](i64 step) {
            const ckpt::StepEntry* entry = find(from_, step);
            return std::ranges::find(removed, step) != removed.end() || !entry ||
                   !from_.current(*entry);
        });
        return all;
    }

    void sync_step(i64 step) {
        const ckpt::StepEntry& entry = *find(from_, step);
        if (at_target(entry)) {
            report_.present.push_back(step);
            if (args_.verify) verify(entry);
            return;
        }
        try {
            copy(entry);
        } catch (const Error& error) {
            report_.failed.emplace_back(error.what());
            warn("{}", error.what());
        }
    }

    void copy(const ckpt::StepEntry& entry) {
        const ckpt::StepLock lock = ckpt::StepLock::to_read(entry.path);
        const ckpt::Verification result = verify_step(entry.path, true);
        if (!result.problems.empty()) {
            warn_of_problems(result);
            run_error(entry.path, "is corrupt: not copied");
        }
        const std::string name = ckpt::step_name(entry.step);
        if (find(to_, entry.step)) {
            // A step of another branch has this number at the target: renames that one.
            const std::string aside =
                fmt::format("{}{}/{}", ckpt::abandoned_prefix, entry.manifest->generation, name);
            again([&] { target_.rename(name, aside); });
            report_.set_aside.push_back(entry.step);
        }
        again([&] { target_.send_step(entry.path); });
        report_.copied.push_back(entry.step);
        report_.bytes += ckpt::tree_bytes(entry.path);
    }

    // Compares the bytes of the copy at the target with the step. Skips a copy without optimizer
    // state, whose bytes differ anyway.
    void verify(const ckpt::StepEntry& entry) {
        const ckpt::Manifest& copy = *find(to_, entry.step)->manifest;
        if (copy.digest != entry.manifest->digest) return;
        bool same = false;
        again([&] { same = target_.same_bytes(entry.path); });
        if (same) {
            report_.verified.push_back(entry.step);
            return;
        }
        report_.failed.push_back(fmt::format("{}/{}: differs from {}", args_.destination,
                                             ckpt::step_name(entry.step), entry.path));
        warn("{}: remove it there, and sync again", report_.failed.back());
    }

    // Makes `latest` of the target name the newest step there that is on the branch of the source.
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

    void retain() {
        std::vector<i64> complete;
        for (const ckpt::StepEntry& entry : to_.steps) {
            if (to_.current(entry)) complete.push_back(entry.step);
        }
        const ckpt::PrunePlan plan = ckpt::plan_prune(directory_, to_, complete, rules_);
        for (const ckpt::PruneAction& action : plan.actions) {
            const i64 step = ckpt::step_from_name(action.name);
            const bool state = action.kind == ckpt::PruneKind::optimizer_state;
            state ? target_.drop_state(action.name) : target_.remove_step(action.name);
            (state ? report_.state_removed : report_.removed).push_back(step);
        }
    }

    const Args& args_;
    ckpt::PruneRules rules_;
    std::string source_, cache_, directory_;
    SyncTarget& target_;
    ckpt::Lineage from_, to_;
    Report report_;
};

int run(const Args& args) {
    if (args.bwlimit && args.bwlimit->value < 1)
        usage_error("--bwlimit", "must be positive, got {}", args.bwlimit->value);
    const std::string source = existing_directory(args.source);
    if (is_step_path(source)) usage_error(source, "is one step: give its parent directory");
    logs_matching(args.logs);  // throws for a pattern without match before anything is copied
    // This directory holds the lock and the manifests of a remote destination.
    const std::string state = fmt::format("{}/.sync-{:016x}", source, hash64(args.destination));
    io::make_directories(state);
    auto lock = io::AppendFile::open(state + "/lock");
    if (!lock.lock()) {
        note("{}: another sync to this destination is running: nothing to do", args.destination);
        cli::write_stdout(io::json_line(
            {{"source", args.source}, {"destination", args.destination}, {"running", true}}));
        return 0;
    }
    const Stopwatch watch;
    const auto target = SyncTarget::open(
        args.destination, args.bwlimit ? std::optional(args.bwlimit->value) : std::nullopt);
    if (args.rules.full_steps && !target->can_drop_state()) {
        usage_error("--weights-only-older-than", "expected a local directory as DEST, got {}",
                    args.destination);
    }
    const Report report = Sync(args, source, state, *target).run();
    cli::write_stdout(report.line(args, watch.elapsed_s()));
    return static_cast<int>(report.failed.empty() ? Exit::done : Exit::failure);
}

}  // namespace

void add_sync(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "sync", "back up a directory of steps: copy the complete steps that DEST lacks",
        [args] { return run(*args); });
    verb.positional("SRC", &args->source, "directory of global_step* directories");
    verb.positional("DEST", &args->destination,
                    "directory, host:path (rsync over ssh), or remote:path of rclone");
    verb.values_added("--logs", &args->logs, "PATTERN", "also copy these files to DEST/logs");
    add_rules(verb, args->rules);
    verb.flag("--verify", &args->verify, "compare the steps that are already at DEST");
    verb.value("--bwlimit", &args->bwlimit, "SIZE", "copy at most SIZE bytes per second");
    verb.value("--retries", &args->retries, "N", "repeat a failed transfer N times");
}

}  // namespace lm::ckpt_tool
