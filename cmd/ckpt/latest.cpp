// SPDX-License-Identifier: Apache-2.0
// lm-ckpt latest: prints the step that a run would load, or sets it for a rollback.
#include <memory>
#include <optional>

#include "base/error.hpp"
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
    std::optional<std::string> step;
};

int run(const Args& args) {
    const std::string directory = existing_directory(args.directory);
    if (is_step_path(directory)) usage_error(directory, "is one step: give its parent directory");
    if (args.step) {
        const i64 step = parse_step("STEP", *args.step);
        const std::string path = directory + "/" + ckpt::step_name(step);
        if (!io::exists(path)) usage_error(path, "does not exist: see lm-ckpt ls {}", directory);
        const auto checkpoint = ckpt::Checkpoint::open(path);
        ckpt::set_latest(directory, ckpt::tip_of(checkpoint.manifest()));
        cli::write_stdout(ckpt::step_name(step) + "\n");
        return 0;
    }
    const std::optional<i64> latest = ckpt::latest_step(directory);
    if (!latest)
        run_error(directory,
                  "has no file 'latest' that names a step: set one with lm-ckpt latest DIR STEP");
    const auto checkpoint = ckpt::Checkpoint::open(directory + "/" + ckpt::step_name(*latest));
    cli::write_stdout(ckpt::step_name(*latest) + "\n");
    return 0;
}

}  // namespace

void add_latest(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "latest", "print the step that 'latest' names, or set it; the step must be complete",
        [args] { return run(*args); });
    verb.positional("DIR", &args->directory, "directory of global_step* directories");
    verb.positional("STEP", &args->step, "new latest step: 120 or global_step120");
}

}  // namespace lm::ckpt_tool
