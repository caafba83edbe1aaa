// SPDX-License-Identifier: Apache-2.0
// lm-ckpt merge: averages the weights of several checkpoints.
#include "ckpt/merge.hpp"

#include <memory>

#include "base/error.hpp"
#include "base/units.hpp"
#include "ckpt/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress.hpp"
#include "convert/conversion.hpp"
#include "io/atomic.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string out;
    std::vector<std::string> checkpoints;
    std::string weights;
    std::string dtype;
    bool force = false;
    bool quiet = false;
};

std::vector<double> parse_weights(const Args& args) {
    const size_t n = args.checkpoints.size();
    if (args.weights.empty()) return std::vector<double>(n, 1.0);
    std::vector<double> weights;
    double total = 0;
    for (const std::string& text : split_at_commas(args.weights)) {
        weights.push_back(parse_number("--weights", text));
        if (weights.back() < 0)
            usage_error("--weights", "expected numbers of at least 0, got {}", text);
        total += weights.back();
    }
    if (weights.size() != n) {
        usage_error("--weights", "expected {} numbers, one for each checkpoint, got {}", n,
                    weights.size());
    }
    if (!(total > 0)) usage_error("--weights", "all are 0: at least one must be positive");
    return weights;
}

std::vector<ckpt::MergeSource> open_all(const Args& args) {
    if (args.checkpoints.size() < 2) {
        usage_error("merge", "expected at least two checkpoints after OUT, got {}",
                    args.checkpoints.size());
    }
    const std::vector<double> weights = parse_weights(args);
    std::vector<ckpt::MergeSource> sources;
    for (size_t i = 0; i < weights.size(); ++i) {
        sources.push_back({ckpt::open(existing_directory(args.checkpoints[i])), weights[i]});
        ckpt::check_same_architecture(sources[0].checkpoint, sources[i].checkpoint);
    }
    return sources;
}

int run(const Args& args, const std::string& command_line) {
    const std::vector<ckpt::MergeSource> sources = open_all(args);
    io::AtomicDirectory out = convert::make_output(args.out, args.checkpoints, args.force);
    const ckpt::Manifest& manifest = sources[0].checkpoint.manifest();
    cli::Progress progress("merge", "parameters", spec::count_parameters(manifest.model).total(),
                           args.quiet);
    ckpt::MergeOptions options{.dtype = {},
                               .command_line = command_line,
                               .progress = [&](i64 done) { progress.update(done); }};
    if (!args.dtype.empty()) options.dtype = dtype_from_name(args.dtype);
    const ckpt::SaveResult result = ckpt::merge(sources, options, out.path());
    out.commit();
    progress.finish();
    cli::write_stdout(fmt::format("{}/{}: average of {} checkpoints, {}\n", out.final_path(),
                                  base_name(result.path), sources.size(),
                                  human_size(result.bytes)));
    return 0;
}

}  // namespace

void add_merge(cli::Options& options, const std::string& command_line) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb =
        options.verb("merge", "average the weights of several checkpoints of one architecture",
                     [args, command_line] { return run(*args, command_line); });
    verb.positional("OUT", &args->out, "directory to create, with the average as its only step");
    verb.positionals("CKPT", &args->checkpoints,
                     "global_step* directories, or directories of them: their latest steps");
    verb.value("--weights", &args->weights, "W1,W2,...",
               "weight of each CKPT, divided by the sum of all; equal by default");
    verb.choice("--dtype", &args->dtype, {"fp32", "bf16", "fp16"},
                "type of the weights in OUT; by default that of the CKPTs, or fp32 when theirs "
                "differ");
    verb.flag("--force", &args->force, "replace an existing OUT");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
