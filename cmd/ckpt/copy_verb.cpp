// SPDX-License-Identifier: Apache-2.0
// lm-ckpt copy: copies steps to another directory and verifies every byte.
#include "ckpt/verbs/copy.hpp"

#include <filesystem>
#include <memory>

#include "base/bounds.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/history/step_lock.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/output_place.hpp"
#include "io/path.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::vector<std::string> paths;  // SRC... DST
    bool weights_only = false;
    std::optional<cli::Bytes> bwlimit;
    bool force = false;
    bool json = false;
    bool quiet = false;
};

struct Destination {
    std::string directory;    // the directory of steps
    std::string step;         // path of the new step
    bool names_step = false;  // DST is the path of the step
    bool is_new = false;      // the directory does not exist yet
};

// Decides what DST means: when DST has the name of a step, DST is the path of the copy, otherwise a
// directory of steps.
Destination destination_of(std::string to, i64 iteration) {
    to = io::without_trailing_slashes(to);
    io::refuse_file_as_parent(to);
    const std::string name = ckpt::step_name(iteration);
    if (ckpt::step_from_name(io::base_name(to)) >= 0) {
        if (io::base_name(to) != name)
            usage_error(to, "names a step other than SRC ({}): give the directory of the copy, {}",
                        name, io::parent_of(to));
        return {io::parent_of(to), to, true};
    }
    if (io::exists(to) && !io::is_directory(to))
        usage_error(to, "is not a directory: choose another name");
    if (ckpt::is_step(to))
        usage_error(to,
                    "is a single step, expected a directory of steps: give its parent directory");
    return {to, to + "/" + name, false};
}

// Writes the copied step into the file `latest`, so that a run can load from the directory. Does
// nothing when `latest` already names a newer step.
void update_latest(const Destination& to, const ckpt::Manifest& copied) {
    if (to.names_step) return;
    const i64 iteration = copied.counters.iteration;
    const bool has_one = io::exists(fmt::format("{}/{}", to.directory, ckpt::latest_file));
    const std::optional<i64> latest = ckpt::latest_step(to.directory);
    if (!has_one || (latest && *latest < iteration)) {
        ckpt::set_latest(to.directory, ckpt::tip_of(copied));
    }
}

ckpt::CopyResult copy_files(const ckpt::CopyPlan& plan, const Destination& to, const Args& args) {
    cli::ProgressLine progress("copy " + io::base_name(to.step), "MiB", plan.n_bytes(), args.quiet);
    ckpt::CopyOptions options{.replace = args.force,
                              .bytes_per_second = {},
                              .progress = [&](i64 done) { progress.update(done); }};
    if (args.bwlimit) options.bytes_per_second = args.bwlimit->value;
    try {
        const ckpt::CopyResult result = ckpt::copy(plan, to.step, options);
        progress.finish();
        return result;
    } catch (const ckpt::DamageError&) {
        // The source is corrupt, so no later attempt can complete this copy.
        io::remove_tree(to.is_new ? to.directory : ckpt::copy_temporary(to.step));
        throw;
    } catch (const Error&) {
        const std::string temporary = ckpt::copy_temporary(to.step);
        std::error_code ignored;
        if (std::filesystem::symlink_status(temporary, ignored).type() ==
            std::filesystem::file_type::directory) {
            note("{}: keeps the files copied so far: run lm-ckpt copy again to continue the copy",
                 temporary);
        }
        throw;
    }
}

void report(const Args& args, const Destination& to, const ckpt::CopyResult& result, double seconds,
            bool existed) {
    if (args.json) {
        cli::write_stdout(io::json_line({{"path", to.step},
                                         {"existed", existed},
                                         {"copied", result.n_copied},
                                         {"copied_before", result.n_kept},
                                         {"seconds", seconds}}));
    } else if (existed) {
        cli::write_text("{}: exists already with the same manifest\n", to.step);
    } else {
        cli::write_text(
            "{}: {} copied and verified in {}{}\n", to.step, human_size(result.n_copied),
            human_duration(seconds),
            result.n_kept == 0 ? "" : fmt::format(", {} copied before", human_size(result.n_kept)));
    }
}

void copy_step(const std::string& from, const std::string& destination, const Args& args) {
    const ckpt::Checkpoint source = ckpt::open(existing_directory(from));
    // While this lock is held, lm-ckpt prune waits before it removes the step.
    const ckpt::StepLock lock = ckpt::StepLock::to_read(source.path());
    Destination to = destination_of(destination, source.manifest().counters.iteration);
    to.is_new = !io::exists(to.directory);
    const ckpt::CopyPlan plan = ckpt::plan_copy(source, args.weights_only);
    std::error_code error;
    const bool same = std::filesystem::equivalent(source.path(), to.step, error);
    if (ckpt::is_copied(plan, to.step) && (same || !args.force)) {
        io::remove_tree(ckpt::copy_temporary(to.step));
        update_latest(to, ckpt::read_manifest(to.step));
        return report(args, to, {}, 0, true);
    }
    if (same) usage_error(to.step, "is the step to copy: choose another DST");
    if (io::exists(to.step) && !args.force) {
        usage_error(
            to.step,
            "exists already, but is incomplete or differs from SRC: use --force to replace it");
    }
    ckpt::require_space(plan, to.step);
    io::make_directories(to.directory);
    const Stopwatch watch;
    const ckpt::CopyResult result = copy_files(plan, to, args);
    update_latest(to, ckpt::read_manifest(to.step));
    report(args, to, result, watch.elapsed_s(), false);
}

int run(const Args& args) {
    if (args.bwlimit) check_at_least("--bwlimit", args.bwlimit->value, 1);
    if (args.paths.size() < 2) usage_error("DST", "is missing: give the directory of the copy");
    for (size_t at = 0; at + 1 < args.paths.size(); ++at) {
        copy_step(args.paths[at], args.paths.back(), args);
    }
    return 0;
}

}  // namespace

void add_copy(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb =
        options.verb("copy", "copy steps and verify them; run again to resume an interrupted copy",
                     [args] { return run(*args); });
    verb.not_called({"cp"});
    verb.examples(
        {"lm-ckpt copy checkpoints /store/run",
         "lm-ckpt copy checkpoints/global_step20 weights --weights-only --bwlimit 200MiB"});
    verb.positionals("SRC... DST", &args->paths,
                     "SRC: global_step* directories, or directories of steps (the latest step of "
                     "each is copied); DST: a directory of steps, which is created if needed, or "
                     "the path of the new step");
    verb.flag("--weights-only", &args->weights_only, "do not copy masters and Adam moments");
    verb.value("--bwlimit", &args->bwlimit, "SIZE", "copy at most SIZE bytes per second");
    verb.flag("--force", &args->force, "replace a different step of that name");
    verb.flag("--json", &args->json, "print JSON Lines, one object for each step");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
