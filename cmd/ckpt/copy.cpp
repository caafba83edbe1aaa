// SPDX-License-Identifier: Apache-2.0
// lm-ckpt copy: copies a step to another place and verifies it on the way.
#include "ckpt/copy.hpp"

#include <filesystem>
#include <memory>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "ckpt/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress.hpp"
#include "cluster/shared_memory.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string from;
    std::string to;
    bool weights_only = false;
    std::optional<cli::Bytes> bwlimit;
    bool force = false;
    bool quiet = false;
};

struct Destination {
    std::string directory;    // the directory of steps
    std::string step;         // path of the new step
    bool names_step = false;  // DST is the path of the step
};

// Decides what DST means: the step itself when it has the name of a step, otherwise a directory of
// steps.
Destination destination_of(std::string to, i64 iteration) {
    while (to.size() > 1 && to.ends_with('/')) to.pop_back();
    const std::string name = ckpt::step_name(iteration);
    if (ckpt::step_from_name(base_name(to)) >= 0) {
        if (base_name(to) != name) usage_error(to, "is the name of another step: SRC is {}", name);
        return {io::parent_of(to), to, true};
    }
    if (io::exists(to) && !io::is_directory(to))
        usage_error(to, "is not a directory: choose another name");
    if (is_step_path(to)) usage_error(to, "is one step: give its parent directory");
    return {to, to + "/" + name, false};
}

void check_space(const ckpt::CopyPlan& plan, const Destination& to) {
    const std::string temporary = ckpt::copy_temporary(to.step);
    const i64 there = io::is_directory(temporary) ? directory_bytes(temporary) : 0;
    const i64 needed = plan.n_bytes() - there;
    const i64 available = cluster::filesystem_use(to.directory).available;
    if (needed <= available) return;
    run_error(to.directory, "needs {}, has {} available: free space, or choose another directory",
              human_size(needed), human_size(available));
}

// Makes `latest` name the copy unless it names a newer step: the directory is often loaded from
// later.
void update_latest(const Destination& to, const ckpt::Manifest& copied) {
    if (to.names_step) return;
    const i64 iteration = copied.counters.iteration;
    const bool has_one = io::exists(fmt::format("{}/{}", to.directory, ckpt::latest_file));
    const std::optional<i64> latest = ckpt::latest_step(to.directory);
    if (!has_one || (latest && *latest < iteration)) {
        ckpt::set_latest(to.directory, ckpt::tip_of(copied));
    }
}

ckpt::CopyResult copy(const ckpt::CopyPlan& plan, const Destination& to, const Args& args) {
    cli::Progress progress("copy " + base_name(to.step), "B", plan.n_bytes(), args.quiet);
    ckpt::CopyOptions options{.replace = args.force,
                              .bytes_per_second = {},
                              .progress = [&](i64 done) { progress.update(done); }};
    if (args.bwlimit) options.bytes_per_second = args.bwlimit->value;
    try {
        const ckpt::CopyResult result = ckpt::copy(plan, to.step, options);
        progress.finish();
        return result;
    } catch (const Error&) {
        const std::string temporary = ckpt::copy_temporary(to.step);
        if (io::exists(temporary)) {
            note("{}: keeps the files copied so far: the same command continues the copy",
                 temporary);
        }
        throw;
    }
}

int run(const Args& args) {
    if (args.bwlimit && args.bwlimit->value < 1)
        usage_error("--bwlimit", "must be positive, got {}", args.bwlimit->value);
    const ckpt::Checkpoint source = ckpt::open(existing_directory(args.from));
    const i64 iteration = source.manifest().counters.iteration;
    const Destination to = destination_of(args.to, iteration);
    const ckpt::CopyPlan plan = ckpt::plan_copy(source, args.weights_only);
    std::error_code error;
    const bool same = std::filesystem::equivalent(source.path(), to.step, error);
    if (ckpt::is_copied(plan, to.step) && (same || !args.force)) {
        io::remove_tree(ckpt::copy_temporary(to.step));
        update_latest(to, ckpt::read_manifest(to.step));
        cli::write_stdout(fmt::format("{}: exists already with the same manifest\n", to.step));
        return 0;
    }
    if (same) usage_error(to.step, "is the step to copy: choose another DST");
    if (io::exists(to.step) && !args.force) {
        usage_error(to.step,
                    "exists already and is another step or an incomplete one: use --force to "
                    "replace it");
    }
    io::make_directories(to.directory);
    check_space(plan, to);
    const Stopwatch watch;
    const ckpt::CopyResult result = copy(plan, to, args);
    update_latest(to, ckpt::read_manifest(to.step));
    cli::write_stdout(fmt::format(
        "{}: {} copied and verified in {}{}\n", to.step, human_size(result.n_copied),
        human_duration(watch.elapsed_s()),
        result.n_kept == 0 ? "" : fmt::format(", {} copied before", human_size(result.n_kept))));
    return 0;
}

}  // namespace

void add_copy(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb("copy", "copy a step and verify it; a killed copy continues",
                                      [args] { return run(*args); });
    verb.positional("SRC", &args->from,
                    "global_step* directory, or a directory of them: its latest step");
    verb.positional("DST", &args->to,
                    "directory of steps, created if needed, or the new path of the step");
    verb.flag("--weights-only", &args->weights_only, "do not copy masters and Adam moments");
    verb.value("--bwlimit", &args->bwlimit, "SIZE", "copy at most SIZE bytes per second");
    verb.flag("--force", &args->force, "replace a different step of that name");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
