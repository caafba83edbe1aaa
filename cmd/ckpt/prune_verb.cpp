// SPDX-License-Identifier: Apache-2.0
// lm-ckpt prune: removes the steps that no rule keeps; on request also optimizer state, abandoned
// steps and left-overs.
#include "ckpt/verbs/prune.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "keep_options.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string directory;
    RuleFlags rules;
    bool abandoned = false;
    std::optional<std::string> leftovers;  // an age such as 1d
    bool dry_run = false;
    bool no_verify = false;
    bool json = false;
    bool quiet = false;
};

// Returns the complete steps of the current branch. The rules do not apply to incomplete steps, so
// prune keeps the incomplete steps, and the user decides about them.
std::vector<i64> complete_steps(const ckpt::Lineage& lineage) {
    std::vector<i64> complete;
    for (const ckpt::StepEntry& entry : lineage.steps) {
        if (!entry.manifest) {
            warn("{}: kept", entry.reason);
            continue;
        }
        if (!lineage.current(entry)) continue;
        try {
            const auto checkpoint = ckpt::Checkpoint::open(entry.path);
            complete.push_back(entry.step);
        } catch (const Error& error) {
            warn("{}: kept", error.what());
        }
    }
    return complete;
}

// Throws Error(usage) when --keep names a step that is not a complete step of the current branch,
// because after a typing error prune would remove the step that the user meant.
void check_rules(const std::string& directory, const ckpt::KeepPolicy& policy,
                 const std::vector<i64>& complete) {
    for (const i64 step : policy.steps) {
        if (std::ranges::find(complete, step) != complete.end()) continue;
        const std::string name = ckpt::step_name(step);
        usage_error("--keep", "{} {} in {}: nothing was removed: see lm-ckpt ls {}", name,
                    io::exists(directory + "/" + name)
                        ? "is not a complete step of the current branch"
                        : "does not exist",
                    directory, directory);
    }
    const auto is_multiple = [&](i64 step) { return step % policy.every == 0; };
    if (policy.every > 0 && std::ranges::none_of(complete, is_multiple)) {
        warn(
            "--keep-every {}: keeps no step, because no complete step in {} is a multiple of this "
            "number",
            policy.every, directory);
    }
}

class Report {
  public:
    explicit Report(const Args& args) : args_(args) {}

    void verified(const std::string& step, i64 bytes, double seconds) const {
        if (args_.json) {
            print({{"action", args_.dry_run ? "would verify" : "verified"},
                   {"name", step},
                   {"bytes", bytes}});
        } else if (args_.dry_run) {
            cli::write_text("would verify {} ({})\n", step, human_size(bytes));
        } else {
            cli::write_text("verified {} ({} in {})\n", step, human_size(bytes),
                            human_duration(seconds));
        }
    }

    void removed(const ckpt::PruneAction& action) {
        n_steps_ += action.kind == ckpt::PruneKind::step;
        freed_ += action.bytes;
        const std::string_view verb = args_.dry_run ? "would remove" : "removed";
        if (args_.json) {
            print({{"action", verb},
                   {"kind", name_in(ckpt::prune_kinds, action.kind)},
                   {"name", action.name},
                   {"bytes", action.bytes}});
            return;
        }
        const bool state = action.kind == ckpt::PruneKind::optimizer_state;
        cli::write_text("{} {}{} ({})\n", verb, state ? "the optimizer state of " : "", action.name,
                        human_size(action.bytes));
    }

    void finish(size_t n_kept) const {
        if (args_.json) {
            print({{"action", "done"}, {"kept", n_kept}, {"removed", n_steps_}, {"freed", freed_}});
        } else {
            cli::write_text("{} kept, {} {}, {}\n", n_kept, n_steps_,
                            args_.dry_run ? "to remove" : "removed", human_size(freed_));
        }
    }

  private:
    static void print(const io::OrderedJson& object) { cli::write_stdout(io::json_line(object)); }

    const Args& args_;
    i64 n_steps_ = 0;
    i64 freed_ = 0;
};

// Before other steps are removed, verifies every byte of the step that a run would load, because a
// complete step may have been corrupted later.
void verify_kept(const std::string& path, const Args& args, const Report& report) {
    const Stopwatch watch;
    if (args.dry_run) return report.verified(io::base_name(path), ckpt::tree_bytes(path), 0);
    const ckpt::Verification result = verify_step(path, args.quiet);
    if (!result.problems.empty()) {
        warn_of_problems(result);
        run_error(path,
                  "is corrupt, and the next run would load it: nothing was removed. Rename the "
                  "step, then prune again: an older step is kept");
    }
    report.verified(io::base_name(path), result.n_bytes, watch.elapsed_s());
}

// Returns the age in seconds. Refuses a number without a unit, because a user who writes 1 may mean
// one day, and an age of one second removes files that another program still writes.
double parse_age(std::string_view option, const std::string& text) {
    const double seconds = parse_duration(option, text);
    if (text.find_first_not_of("0123456789_.") == text.npos)
        usage_error(option, "'{0}' has no unit: write {0}d, {0}h or {0}m", text);
    return seconds;
}

ckpt::PruneRules rules_of(const Args& args) {
    ckpt::PruneRules rules = parse_rules(args.rules);
    rules.abandoned = args.abandoned;
    if (args.leftovers) rules.leftovers_s = parse_age("--leftovers", *args.leftovers);
    const bool any =
        !rules.keep.empty() || rules.full_steps || rules.abandoned || rules.leftovers_s;
    if (!any) {
        usage_error("prune",
                    "give at least one of --keep-last, --keep-every, --keep, --keep-schedule, "
                    "--weights-only-older-than, --abandoned and --leftovers");
    }
    return rules;
}

int run(const Args& args) {
    const std::string directory = directory_of_steps(args.directory);
    const ckpt::PruneRules rules = rules_of(args);
    const ckpt::Lineage lineage = ckpt::read_lineage(directory);
    const std::vector<i64> complete = complete_steps(lineage);
    check_rules(directory, rules.keep, complete);
    const std::string problem = ckpt::problem_of_latest(directory, lineage);
    if (!problem.empty()) throw Error(Exit::failure, problem + ": nothing was removed");
    const ckpt::PrunePlan plan = ckpt::plan_prune(directory, lineage, complete, rules);
    Report report(args);
    const bool only_leftovers = std::ranges::all_of(
        plan.actions,
        [](const ckpt::PruneAction& action) { return action.kind == ckpt::PruneKind::leftover; });
    if (plan.newest && !only_leftovers && !args.no_verify) {
        verify_kept(directory + "/" + ckpt::step_name(*plan.newest), args, report);
    }
    if (args.dry_run) {
        for (const ckpt::PruneAction& action : plan.actions) report.removed(action);
    } else {
        std::optional<cli::ProgressLine> line;
        ckpt::prune(
            directory, plan,
            [&](const ckpt::PruneAction& done) {
                line.reset();
                report.removed(done);
            },
            [&](i64 done, i64 total) {
                if (!line) line.emplace("rewrite weights", "MiB", total, args.quiet);
                line->update(done);
            });
        ckpt::finish_removals(directory);
    }
    report.finish(plan.kept.size());
    return 0;
}

}  // namespace

void add_prune(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "prune", "remove complete steps that no rule keeps; latest and the newest step stay",
        [args] { return run(*args); });
    verb.not_called({"rm", "remove", "delete", "clean"});
    verb.examples({"lm-ckpt prune checkpoints --keep-last 5 --keep-every 1000 --dry-run",
                   "lm-ckpt prune checkpoints --abandoned --leftovers 1d"});
    verb.positional("DIR", &args->directory, "directory of global_step* directories");
    add_rules(verb, args->rules);
    verb.flag("--abandoned", &args->abandoned, "remove the steps of abandoned branches");
    verb.value("--leftovers", &args->leftovers, "AGE",
               "remove temporary files and directories older than AGE, such as 1d");
    verb.flag("--dry-run", &args->dry_run, "only print the removals");
    verb.flag("--no-verify", &args->no_verify,
              "before removing steps, do not verify the step that a run would load");
    verb.flag("--json", &args->json, "print JSON Lines, one object for each removal");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
