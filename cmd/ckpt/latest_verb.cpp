// SPDX-License-Identifier: Apache-2.0
// lm-ckpt latest: prints the step that a run would load, or sets it for a rollback.
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/rollback.hpp"
#include "ckpt/history/run_logs.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/prune.hpp"
#include "cli/main.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string directory;
    std::optional<std::string> step;
    std::vector<std::string> logs;
    bool remove_later = false;
    bool no_verify = false;
    bool quiet = false;
    bool json = false;
};

// Removes the lines of iterations after `step` from the logs in `directory` and from the logs that
// --logs names. Returns the paths of the logs that lost lines.
std::vector<std::string> cut_logs(const Args& args, const std::string& directory, i64 step,
                                  const std::string& aside) {
    const auto checkpoint = ckpt::Checkpoint::open(directory + "/" + ckpt::step_name(step));
    const ckpt::LogCut point = ckpt::cut_after(checkpoint.manifest());
    std::vector<ckpt::RunLog> logs = ckpt::logs_below(directory);
    for (ckpt::RunLog& named : ckpt::logs_matching(args.logs)) logs.push_back(std::move(named));
    std::vector<std::string> cut;
    for (const ckpt::RunLog& log : logs) {
        if (!cut_log(log, point, aside)) continue;
        note("{}: truncated after iteration {}{}", log.path, step,
             args.remove_later ? "" : fmt::format(": the original is {}/{}", aside, log.name));
        cut.push_back(log.path);
    }
    return cut;
}

// Throws Error(failure) unless a run can load the step.
void require_good(const std::string& path, bool quiet) {
    const ckpt::Verification result = verify_step(path, quiet);
    if (result.problems.empty()) return;
    warn_of_problems(result);
    run_error(path, "is corrupt: choose another step; nothing was changed");
}

int set(const Args& args, const std::string& directory) {
    const i64 step = parse_step("STEP", *args.step);
    const std::string path = directory + "/" + ckpt::step_name(step);
    if (!io::exists(path)) usage_error(path, "does not exist: see lm-ckpt ls {}", directory);
    if (!args.no_verify) require_good(path, args.quiet);
    ckpt::check_patterns(args.logs);  // before any change
    const ckpt::Rollback rollback = ckpt::roll_back(directory, step);
    const std::string aside = ckpt::abandoned_path(directory, rollback.generation.number);
    for (const std::string& later : rollback.set_aside) {
        const std::string name = directory + "/" + io::base_name(later);
        args.remove_later ? note("{}: removed", name) : note("{}: set aside as {}", name, later);
    }
    const std::vector<std::string> cut = cut_logs(args, directory, step, aside);
    if (args.remove_later && io::exists(aside)) ckpt::remove_whole(directory, io::base_name(aside));
    if (!args.json) {
        cli::write_stdout(ckpt::step_name(step) + "\n");
        return 0;
    }
    cli::write_stdout(io::json_line({{"step", step},
                                     {"path", path},
                                     {"generation", rollback.generation.number},
                                     {"set_aside", rollback.set_aside},
                                     {"removed", args.remove_later},
                                     {"logs", cut}}));
    return 0;
}

int print(const Args& args, const std::string& directory) {
    const std::optional<i64> latest = ckpt::latest_step(directory);
    if (!latest && !has_step(directory))
        run_error(directory, "has no step: the run has not saved one yet");
    if (!latest)
        run_error(directory,
                  "has no file 'latest' that names a step: set one with lm-ckpt latest DIR STEP");
    const std::string path = directory + "/" + ckpt::step_name(*latest);
    const auto checkpoint = ckpt::Checkpoint::open(path);
    cli::write_stdout(args.json ? io::json_line({{"step", *latest}, {"path", path}})
                                : ckpt::step_name(*latest) + "\n");
    return 0;
}

int run(const Args& args) {
    const std::string directory = directory_of_steps(args.directory);
    if (args.step) return set(args, directory);
    if (args.remove_later || args.no_verify || !args.logs.empty())
        usage_error("latest", "--remove-later, --no-verify and --logs need a STEP");
    return print(args, directory);
}

}  // namespace

void add_latest(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "latest", "print the step that 'latest' names, or set it to another complete step",
        [args] { return run(*args); });
    verb.examples(
        {"lm-ckpt latest checkpoints", "lm-ckpt latest checkpoints 10 --logs 'train*.log'"});
    verb.positional("DIR", &args->directory, "directory of global_step* directories");
    verb.positional("STEP", &args->step, "new latest step: 120 or global_step120");
    verb.flag("--remove-later", &args->remove_later,
              "remove the later steps instead of moving them to another directory");
    verb.flag("--no-verify", &args->no_verify,
              "do not verify STEP before it becomes the latest step");
    verb.values_added(
        "--logs", &args->logs, "PATTERN",
        "also truncate the matching logs after STEP; logs in DIR are always truncated");
    verb.flag("--json", &args->json, "print one JSON object on one line");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
