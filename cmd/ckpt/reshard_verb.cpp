// SPDX-License-Identifier: Apache-2.0
// lm-ckpt reshard: rewrites a step as another layout would have written it.
#include "ckpt/verbs/reshard.hpp"

#include <memory>

#include "base/error.hpp"
#include "base/units.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "config/parallel_flags.hpp"
#include "convert/conversion.hpp"
#include "io/atomic.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string path;
    std::string out;
    config::ParallelFlags parallel;  // reshard uses only tensor and pipeline parallel sizes
    bool force = false;
    bool json = false;
    bool quiet = false;
};

int run(const Args& args) {
    const ckpt::Checkpoint from = ckpt::open(existing_directory(args.path));
    const auto problems = config::layout_problems(args.parallel, from.manifest().model);
    if (!problems.empty()) throw Error(Exit::usage, problems.front());
    io::AtomicDirectory out = convert::make_output(args.out, {args.path}, args.force);
    cli::ProgressLine progress("reshard", "MiB", ckpt::tree_bytes(from.path()), args.quiet);
    const ckpt::SaveResult result =
        ckpt::reshard(from, args.parallel.tensor, args.parallel.pipeline, out.path(),
                      [&](i64 done) { progress.update(done); });
    out.commit();
    progress.finish();
    const std::string path = out.final_path() + "/" + io::base_name(result.path);
    if (args.json) {
        using spec::ParallelConfig;
        cli::write_stdout(
            io::json_line({{"path", path},
                           {dimension_of(&ParallelConfig::tp).key, args.parallel.tensor.value},
                           {dimension_of(&ParallelConfig::pp).key, args.parallel.pipeline.value},
                           {"bytes", result.bytes}}));
    } else {
        cli::write_text("{}: tp{} pp{}, {}\n", path, args.parallel.tensor.value,
                        args.parallel.pipeline.value, human_size(result.bytes));
    }
    return 0;
}

}  // namespace

void add_reshard(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb =
        options.verb("reshard", "rewrite a step for another layout, with its optimizer state",
                     [args] { return run(*args); });
    verb.examples(
        {"lm-ckpt reshard checkpoints cut --tensor-model-parallel-size 2 "
         "--pipeline-model-parallel-size 2"});
    verb.positional("CKPT", &args->path,
                    "global_step* directory, or directory of steps (its latest step is read)");
    verb.positional("OUT", &args->out, "directory to create, with the step as its only step");
    verb.value("--tensor-model-parallel-size", &args->parallel.tensor, "T",
               "tensor ranks of the layout");
    verb.value("--pipeline-model-parallel-size", &args->parallel.pipeline, "P",
               "pipeline stages of the layout");
    verb.flag("--force", &args->force, "replace an existing OUT");
    verb.flag("--json", &args->json, "print one JSON object on one line");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
