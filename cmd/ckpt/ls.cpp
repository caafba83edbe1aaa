// SPDX-License-Identifier: Apache-2.0
// lm-ckpt ls: prints one line for each step of a checkpoint directory.
#include <algorithm>
#include <memory>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/index.hpp"
#include "ckpt/steps.hpp"
#include "cli/main.hpp"
#include "io/json.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string directory;
    bool json = false;
};

struct Row {
    i64 step = 0;
    std::string path;
    i64 bytes = 0;
    bool latest = false;
    std::string reason;  // why the step is not complete; empty for a complete one
    std::optional<ckpt::Checkpoint> checkpoint;
};

Row row_of(const std::string& directory, i64 step, std::optional<i64> latest) {
    Row row;
    row.step = step;
    row.path = directory + "/" + ckpt::step_name(step);
    row.bytes = directory_bytes(row.path);
    row.latest = latest == step;
    try {
        row.checkpoint = ckpt::Checkpoint::open(row.path);
    } catch (const Error& error) {
        row.reason = error.what();
    }
    return row;
}

void print_json(const Row& row) {
    io::OrderedJson object;
    object["step"] = row.step;
    object["path"] = row.path;
    object["bytes"] = row.bytes;
    object["latest"] = row.latest;
    object["complete"] = row.checkpoint.has_value();
    if (row.checkpoint) {
        const ckpt::Manifest& manifest = row.checkpoint->manifest();
        object["created"] = manifest.created;
        object["consumed_samples"] = manifest.counters.consumed_samples;
        object["consumed_tokens"] = manifest.counters.consumed_tokens;
        object["tensor_model_parallel_size"] = manifest.parallel.tp;
        object["pipeline_model_parallel_size"] = manifest.parallel.pp;
        object["data_parallel_size"] = manifest.parallel.dp;
        object["optimizer_state"] = row.checkpoint->has(ckpt::SliceKind::exp_avg);
    } else {
        object["reason"] = row.reason;
    }
    cli::write_stdout(io::json_line(object));
}

void print_text(const Row& row) {
    std::string layout = "-";
    std::string created = "-";
    std::string state = "incomplete: " + row.reason;
    if (row.checkpoint) {
        const ckpt::Manifest& manifest = row.checkpoint->manifest();
        layout = fmt::format("tp{} pp{} dp{}", manifest.parallel.tp, manifest.parallel.pp,
                             manifest.parallel.dp);
        created = manifest.created;
        state =
            row.checkpoint->has(ckpt::SliceKind::exp_avg) ? "complete" : "complete, weights only";
        if (row.latest) state += ", latest";
    } else if (row.latest) {
        state += " (latest)";
    }
    cli::write_stdout(fmt::format("{:>10}  {:>10}  {:<14}  {:<20}  {}\n", row.step,
                                  human_size(row.bytes), layout, created, state));
}

int run(const Args& args) {
    const std::string directory = existing_directory(args.directory);
    if (is_step_path(directory)) {
        usage_error(directory, "is one step: give its parent directory, or use lm-ckpt show");
    }
    const std::vector<i64> steps = ckpt::steps_in(directory);
    const std::optional<i64> latest = ckpt::latest_step(directory);
    if (steps.empty()) run_error(directory, "has no checkpoint: no global_step* directory exists");
    if (!args.json) {
        cli::write_stdout(fmt::format("{:>10}  {:>10}  {:<14}  {:<20}  {}\n", "STEP", "SIZE",
                                      "LAYOUT", "CREATED", "STATE"));
    }
    for (const i64 step : steps) {
        const Row row = row_of(directory, step, latest);
        args.json ? print_json(row) : print_text(row);
    }
    return 0;
}

}  // namespace

void add_ls(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb("ls", "list the steps of a checkpoint directory",
                                      [args] { return run(*args); });
    verb.positional("DIR", &args->directory, "directory of global_step* directories");
    verb.flag("--json", &args->json, "print JSON Lines");
}

}  // namespace lm::ckpt_tool
