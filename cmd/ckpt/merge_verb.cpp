// SPDX-License-Identifier: Apache-2.0
// lm-ckpt merge: averages the weights of several checkpoints.
#include "ckpt/verbs/merge.hpp"

#include <memory>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "ckpt/history/lineage.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "convert/conversion.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string out;
    std::vector<std::string> checkpoints;
    std::string weights;
    std::optional<i64> window;
    std::string style;
    std::string dtype;
    bool json = false;
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

std::vector<ckpt::MergeSource> open_listed(const Args& args) {
    if (!args.style.empty()) usage_error("--style", "needs --window");
    if (args.checkpoints.size() < 2) {
        usage_error("merge", "expected at least two checkpoints after OUT, got {}",
                    args.checkpoints.size());
    }
    const std::vector<double> weights = parse_weights(args);
    std::vector<ckpt::MergeSource> sources;
    for (size_t i = 0; i < weights.size(); ++i) {
        sources.push_back({ckpt::open(existing_directory(args.checkpoints[i])), weights[i]});
    }
    return sources;
}

// Opens the steps that the current branch of the directory has in its last --window tokens.
std::vector<ckpt::MergeSource> open_window(const Args& args) {
    if (!args.weights.empty()) usage_error("--weights", "cannot be used with --window");
    if (args.checkpoints.size() != 1 || ckpt::is_step(args.checkpoints[0]))
        usage_error("--window", "expected OUT and one directory of steps");
    const std::string directory = existing_directory(args.checkpoints[0]);
    const ckpt::Lineage lineage = ckpt::read_lineage(directory);
    std::vector<std::string> paths;
    std::vector<i64> tokens;
    const i64 last = ckpt::open(directory).manifest().counters.consumed_tokens;
    for (const ckpt::StepEntry& entry : lineage.steps) {
        if (!lineage.current(entry)) continue;
        const i64 n = entry.manifest->counters.consumed_tokens;
        if (n > last || n < last - *args.window) continue;
        paths.push_back(entry.path);
        tokens.push_back(n);
    }
    if (paths.size() < 2) {
        usage_error("--window", "expected at least two steps in the last {} tokens of {}, got {}",
                    *args.window, directory, paths.size());
    }
    const auto style = value_in(ckpt::emulated_decays, args.style);
    const std::vector<double> weights =
        ckpt::decay_weights(tokens, style.value_or(ckpt::EmulatedDecay::linear));
    std::vector<ckpt::MergeSource> sources;
    for (size_t i = 0; i < paths.size(); ++i) {
        note("{}: weight {:.6f}", paths[i], weights[i]);
        sources.push_back({ckpt::Checkpoint::open(paths[i]), weights[i]});
    }
    return sources;
}

std::vector<ckpt::MergeSource> open_all(const Args& args) {
    if (!args.checkpoints.empty() && !io::exists(args.checkpoints.back()) && io::exists(args.out)) {
        usage_error(args.checkpoints.back(),
                    "does not exist: give OUT, the directory to create, before the checkpoints");
    }
    std::vector<ckpt::MergeSource> sources = args.window ? open_window(args) : open_listed(args);
    for (const ckpt::MergeSource& source : sources) {
        ckpt::check_same_architecture(sources[0].checkpoint, source.checkpoint);
    }
    return sources;
}

int run(const Args& args, const std::string& command_line) {
    const std::vector<ckpt::MergeSource> sources = open_all(args);
    io::AtomicDirectory out = convert::make_output(args.out, args.checkpoints, args.force);
    const ckpt::Manifest& manifest = sources[0].checkpoint.manifest();
    cli::ProgressLine progress("merge", "parameters",
                               spec::count_parameters(manifest.model).total(), args.quiet);
    ckpt::MergeOptions options{.dtype = {},
                               .command_line = command_line,
                               .progress = [&](i64 done) { progress.update(done); }};
    if (!args.dtype.empty()) options.dtype = dtype_from_name(args.dtype);
    const ckpt::SaveResult result = ckpt::merge(sources, options, out.path());
    out.commit();
    progress.finish();
    const std::string path = out.final_path() + "/" + io::base_name(result.path);
    if (args.json) {
        io::OrderedJson object{{"path", path}, {"bytes", result.bytes}};
        for (const ckpt::MergeSource& source : sources) {
            object["merged"].push_back(
                {{"path", source.checkpoint.path()}, {"weight", source.weight}});
        }
        cli::write_stdout(io::json_line(object));
    } else {
        cli::write_text("{}: average of {} checkpoints, {}\n", path, sources.size(),
                        human_size(result.bytes));
    }
    return 0;
}

}  // namespace

void add_merge(cli::Options& options, const std::string& command_line) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb =
        options.verb("merge", "average the weights of several checkpoints of one architecture",
                     [args, command_line] { return run(*args, command_line); });
    verb.not_called({"average", "avg"});
    verb.examples(
        {"lm-ckpt merge average checkpoints/global_step10 checkpoints/global_step20 --weights 1,3",
         "lm-ckpt merge decayed checkpoints --window 500B --style minus-sqrt"});
    verb.positional("OUT", &args->out, "directory to create, with the average as its only step");
    verb.positionals("CKPT", &args->checkpoints,
                     "global_step* directories, or directories of steps (the latest step of each "
                     "is read); with --window, one directory of steps");
    verb.value("--weights", &args->weights, "W1,W2,...",
               "weight of each CKPT; the weights are divided by their sum; default: equal weights");
    verb.value(
        "--window", &args->window, "N",
        "average the steps of the last N tokens, in place of a run with a decaying learning rate");
    verb.choice("--style", &args->style, names_in(ckpt::emulated_decays),
                "decay of the learning rate that --window approximates; default: linear, which "
                "gives evenly spaced steps equal weights");
    verb.choice("--dtype", &args->dtype, {"fp32", "bf16", "fp16"},
                "type of the weights in OUT; default: the type in the CKPTs, or fp32 when their "
                "types differ");
    verb.flag("--force", &args->force, "replace an existing OUT");
    verb.flag("--json", &args->json, "print one JSON object on one line");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
