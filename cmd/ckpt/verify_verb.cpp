// SPDX-License-Identifier: Apache-2.0
// lm-ckpt verify: reads every byte of a checkpoint and prints the problems.
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/color.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "foreign.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string path;
    bool quiet = false;
    bool json = false;
};

// Returns an object with the members "file", "tensor", "kind" and "problem". A member is null when
// the problem does not name it.
io::OrderedJson to_json(const ckpt::Problem& problem) {
    const auto or_null = [](const std::string& text) {
        return text.empty() ? io::OrderedJson() : io::OrderedJson(text);
    };
    return {{"file", or_null(problem.file)},
            {"tensor", or_null(problem.tensor)},
            {"kind", or_null(problem.kind)},
            {"problem", problem.text}};
}

void report(const std::string& path, const ckpt::Verification& result, bool json) {
    if (json) {
        io::OrderedJson object;
        object["path"] = path;
        object["ok"] = result.problems.empty();
        object["tensors"] = result.n_tensors;
        object["slices"] = result.n_slices;
        object["bytes"] = result.n_bytes;
        object["non_finite"] = result.n_non_finite;
        object["problems"] = io::OrderedJson::array();
        for (const ckpt::Problem& problem : result.problems)
            object["problems"].push_back(to_json(problem));
        cli::write_stdout(io::json_line(object));
        return;
    }
    const auto red = [](const std::string& text) {
        return cli::colored(cli::Color::red, printable(text), STDOUT_FILENO) + "\n";
    };
    for (const ckpt::Problem& problem : result.problems) cli::write_stdout(red(problem.line()));
    if (result.problems.empty()) {
        cli::write_text("{}: ok: {} tensors, {} slices, {} of data\n", path, result.n_tensors,
                        result.n_slices, human_size(result.n_bytes));
    } else {
        cli::write_stdout(red(fmt::format("{}: bad: {} problem{}", path, result.problems.size(),
                                          result.problems.size() == 1 ? "" : "s")));
    }
}

bool is_good(const std::string& path, const Args& args) {
    const ckpt::Verification result = verify_step(path, args.quiet);
    report(path, result, args.json);
    return result.problems.empty();
}

// Checks that `latest` names an existing step.
bool verify_latest(const std::string& directory, const std::vector<i64>& steps, const Args& args) {
    const std::optional<i64> latest = ckpt::latest_step(directory);
    if (latest && std::ranges::find(steps, *latest) != steps.end()) return true;
    ckpt::Verification result;
    result.problems.push_back(
        {.file = directory + "/latest",
         .text = latest ? fmt::format("names {}, which does not exist", ckpt::step_name(*latest))
                        : "names no step"});
    report(directory + "/latest", result, args.json);
    return false;
}

// Verifies the steps of a directory. Sets `good` to false when a step is corrupt, and `readable` to
// false when a step cannot be read. Returns the steps that still exist at the end, because a
// training may delete steps at the same time.
std::vector<i64> verify_all(const std::string& directory, const std::vector<i64>& steps,
                            const Args& args, bool& good, bool& readable) {
    std::vector<i64> existing;
    for (const i64 step : steps) {
        const std::string path = directory + "/" + ckpt::step_name(step);
        try {
            const ckpt::Verification result = verify_step(path, args.quiet);
            if (!io::exists(path)) {
                note("{}: was deleted during the check: skipped", path);
                continue;
            }
            report(path, result, args.json);
            good = good && result.problems.empty();
        } catch (const Error& error) {
            if (error.code() != Exit::failure) throw;
            if (!io::exists(path)) continue;
            warn("{}", error.what());
            readable = false;
        }
        existing.push_back(step);
    }
    return existing;
}

int run(const Args& args) {
    const std::string path = existing_directory(args.path);
    if (is_foreign(path)) return verify_foreign(path, args.json, args.quiet);
    bool good = true;
    bool readable = true;
    if (ckpt::is_step(path)) {
        good = is_good(path, args);
    } else {
        const std::vector<i64> steps = ckpt::steps_in(path);
        if (steps.empty()) usage_error(path, "has no checkpoint: no global_step* directory exists");
        const std::vector<i64> existing = verify_all(path, steps, args, good, readable);
        good = verify_latest(path, existing, args) && good;
    }
    if (!readable) return static_cast<int>(Exit::failure);
    return static_cast<int>(good ? Exit::done : Exit::answer_is_no);
}

}  // namespace

void warn_of_problems(const ckpt::Verification& result) {
    for (const ckpt::Problem& problem : result.problems) warn("{}", problem.line());
}

ckpt::Verification verify_step(const std::string& path, bool quiet) {
    cli::ProgressLine progress("verify " + io::base_name(path), "MiB", ckpt::tree_bytes(path),
                               quiet);
    return ckpt::verify(path, [&](i64 done) { progress.update(done); });
}

void add_verify(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "verify", "check digests, checksums, shapes, coverage and that all numbers are finite",
        [args] { return run(*args); });
    verb.not_called({"check", "test", "validate"});
    verb.examples({"lm-ckpt verify checkpoints", "lm-ckpt verify checkpoints/global_step20"});
    verb.positional("CKPT", &args->path,
                    "global_step* directory, directory of steps (every step is verified), or "
                    "Megatron checkpoint");
    verb.flag("--json", &args->json, "print JSON Lines, one object for each step");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
