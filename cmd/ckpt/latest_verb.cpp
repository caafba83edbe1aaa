// SPDX-License-Identifier: Apache-2.0
// lm-ckpt latest: prints the step that a run would load, or sets it for a rollback.
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/abandon.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/prune.hpp"
#include "ckpt/rollback.hpp"
#include "ckpt/steps.hpp"
#include "cli/main.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "logs.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string directory;
    std::optional<std::string> step;
    std::vector<std::string> logs;
    bool remove_later = false;
    bool json = false;
};

// Cuts the logs in `directory` and those that --logs names; returns the paths of the logs that were
// cut.
std::vector<std::string> cut_logs(const Args& args, const std::string& directory, i64 step,
                                  const std::string& aside) {
    std::vector<LogFile> logs = logs_below(directory);
    for (LogFile& named : logs_matching(args.logs)) logs.push_back(std::move(named));
    std::vector<std::string> cut;
    for (const LogFile& log : logs) {
        if (!cut_log(log, step, aside)) continue;
        note("{}: cut after iteration {}: the whole file is {}/{}", log.path, step, aside,
             log.name);
        cut.push_back(log.path);
    }
    return cut;
}

int set(const Args& args, const std::string& directory) {
    const i64 step = parse_step("STEP", *args.step);
    const std::string path = directory + "/" + ckpt::step_name(step);
    if (!io::exists(path)) usage_error(path, "does not exist: see lm-ckpt ls {}", directory);
    logs_matching(args.logs);  // throws for a pattern without match before anything changes
    const ckpt::Rollback rollback = ckpt::roll_back(directory, step);
    const std::string aside = ckpt::abandoned_path(directory, rollback.generation.number);
    for (const std::string& later : rollback.set_aside) {
        note("{}: set aside as {}", directory + "/" + base_name(later), later);
    }
    const std::vector<std::string> cut = cut_logs(args, directory, step, aside);
    if (args.remove_later && io::exists(aside)) ckpt::remove_whole(directory, base_name(aside));
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
    const std::string directory = existing_directory(args.directory);
    if (is_step_path(directory)) usage_error(directory, "is one step: give its parent directory");
    if (args.step) return set(args, directory);
    if (args.remove_later || !args.logs.empty())
        usage_error("latest", "--remove-later and --logs need a STEP");
    return print(args, directory);
}

}  // namespace

void add_latest(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "latest", "print the step that 'latest' names, or go back to another complete one",
        [args] { return run(*args); });
    verb.positional("DIR", &args->directory, "directory of global_step* directories");
    verb.positional("STEP", &args->step, "new latest step: 120 or global_step120");
    verb.flag("--remove-later", &args->remove_later,
              "remove the later steps instead of keeping them aside");
    verb.values_added("--logs", &args->logs, "PATTERN",
                      "also cut these logs after STEP; those in DIR are found without it");
    verb.flag("--json", &args->json, "print one JSON object on one line");
}

}  // namespace lm::ckpt_tool
