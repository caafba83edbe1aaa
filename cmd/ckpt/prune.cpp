// SPDX-License-Identifier: Apache-2.0
// lm-ckpt prune: removes the steps that no rule keeps.
#include "ckpt/prune.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/steps.hpp"
#include "cli/main.hpp"
#include "io/file.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string directory;
    std::optional<i64> keep_last;
    std::optional<i64> keep_every;
    std::string keep;
    bool dry_run = false;
    bool no_verify = false;
    bool quiet = false;
};

std::vector<i64> parse_steps(const std::string& text) {
    std::vector<i64> steps;
    for (const std::string& step : split_at_commas(text)) {
        steps.push_back(parse_step("--keep", step));
    }
    return steps;
}

// Returns the complete steps. Incomplete steps match no rule and are kept: the user decides about
// them.
std::vector<i64> complete_steps(const std::string& directory) {
    std::vector<i64> complete;
    for (const i64 step : ckpt::steps_in(directory)) {
        try {
            const auto checkpoint = ckpt::Checkpoint::open(directory + "/" + ckpt::step_name(step));
            complete.push_back(step);
        } catch (const Error& error) {
            warn("{}: kept", error.what());
        }
    }
    return complete;
}

// Refuses to keep a step that does not exist: with a typing error, the step that was meant would be
// removed.
void check_rules(const std::string& directory, const ckpt::KeepPolicy& policy,
                 const std::vector<i64>& complete) {
    for (const i64 step : policy.steps) {
        if (std::ranges::find(complete, step) != complete.end()) continue;
        const std::string name = ckpt::step_name(step);
        usage_error("--keep", "{} {} in {}: nothing was removed: see lm-ckpt ls {}", name,
                    io::exists(directory + "/" + name) ? "is not complete" : "does not exist",
                    directory, directory);
    }
    const auto is_multiple = [&](i64 step) { return step % policy.every == 0; };
    if (policy.every > 0 && std::ranges::none_of(complete, is_multiple)) {
        warn("--keep-every {}: keeps no step: none of the complete steps in {} is a multiple",
             policy.every, directory);
    }
}

// Verifies every byte of the steps that a run would load before other steps are removed: a complete
// step may have been corrupted later.
void verify_kept(const std::string& directory, const std::vector<i64>& kept, const Args& args) {
    for (const i64 step : kept) {
        const std::string path = directory + "/" + ckpt::step_name(step);
        if (args.dry_run) {
            cli::write_stdout(fmt::format("would verify {} ({})\n", ckpt::step_name(step),
                                          human_size(directory_bytes(path))));
            continue;
        }
        const Stopwatch watch;
        const ckpt::Verification result = verify_step(path, args.quiet);
        if (!result.problems.empty()) {
            for (const std::string& problem : result.problems) warn("{}", problem);
            run_error(
                path,
                "is the step to keep, and is corrupt: nothing was removed: move it away and prune "
                "again, so that an older step is kept");
        }
        cli::write_stdout(fmt::format("verified {} ({} in {})\n", ckpt::step_name(step),
                                      human_size(result.n_bytes),
                                      human_duration(watch.elapsed_s())));
    }
}

// Returns the newest step and the one that `latest` names.
std::vector<i64> steps_to_verify(const std::vector<i64>& complete, std::optional<i64> latest) {
    std::vector<i64> steps{complete.back()};
    if (latest && latest != complete.back() &&
        std::ranges::find(complete, *latest) != complete.end()) {
        steps.push_back(*latest);
    }
    return steps;
}

int run(const Args& args) {
    const std::string directory = existing_directory(args.directory);
    if (is_step_path(directory)) usage_error(directory, "is one step: give its parent directory");
    const ckpt::KeepPolicy policy{args.keep_last.value_or(0), args.keep_every.value_or(0),
                                  parse_steps(args.keep)};
    if (policy.last == 0 && policy.every == 0 && policy.steps.empty()) {
        usage_error("prune", "give at least one of --keep-last, --keep-every and --keep");
    }
    const std::vector<i64> steps = complete_steps(directory);
    check_rules(directory, policy, steps);
    const std::optional<i64> latest = ckpt::latest_step(directory);
    const auto removed = ckpt::steps_to_remove(steps, policy, latest);
    if (!removed.empty() && !args.no_verify) {
        verify_kept(directory, steps_to_verify(steps, latest), args);
    }
    i64 freed = 0;
    for (const i64 step : removed) {
        const i64 bytes = directory_bytes(directory + "/" + ckpt::step_name(step));
        freed += bytes;
        if (!args.dry_run) ckpt::remove_step(directory, step);
        cli::write_stdout(fmt::format("{} {} ({})\n", args.dry_run ? "would remove" : "removed",
                                      ckpt::step_name(step), human_size(bytes)));
    }
    if (!args.dry_run) ckpt::finish_removals(directory);
    cli::write_stdout(fmt::format("{} kept, {} {}, {}\n", steps.size() - removed.size(),
                                  removed.size(), args.dry_run ? "to remove" : "removed",
                                  human_size(freed)));
    return 0;
}

}  // namespace

void add_prune(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "prune", "remove complete steps that no rule keeps; latest and the newest step stay",
        [args] { return run(*args); });
    verb.positional("DIR", &args->directory, "directory of global_step* directories");
    verb.value("--keep-last", &args->keep_last, "K", "keep the K newest steps");
    verb.value("--keep-every", &args->keep_every, "N", "keep steps that are multiples of N");
    verb.value("--keep", &args->keep, "STEP,...", "keep the given steps");
    verb.flag("--dry-run", &args->dry_run, "only print the steps to remove");
    verb.flag("--no-verify", &args->no_verify,
              "do not verify the newest step and latest before others are removed");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
