// SPDX-License-Identifier: Apache-2.0
// lm-ckpt unshard: writes the weights of a checkpoint as one model.
#include "convert/formats/unshard.hpp"

#include <memory>
#include <optional>

#include "base/bounds.hpp"
#include "base/units.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "foreign.hpp"
#include "io/json.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string path;
    std::string out;
    std::string dtype;
    cli::Bytes max_shard{5'000'000'000};
    bool force = false;
    bool json = false;
    bool quiet = false;
};

int run(const Args& args) {
    check_at_least("--max-shard-size", args.max_shard.value, 1);
    const auto source = open_tensors(existing_directory(args.path), args.dtype.empty());
    std::optional<cli::ProgressLine> line;
    const auto progress = [&](i64 done, i64 total) {
        if (!line) line.emplace("unshard", "MiB", total, args.quiet);
        line->update(done);
    };
    convert::UnshardRequest request{.out = args.out,
                                    .dtype = {},
                                    .max_shard_bytes = args.max_shard.value,
                                    .force = args.force,
                                    .progress = progress};
    if (!args.dtype.empty()) request.dtype = dtype_from_name(args.dtype);
    const convert::UnshardReport report = convert::unshard(*source, request);
    if (line) line->finish();
    if (args.json) {
        cli::write_stdout(io::json_line(
            {{"files", report.files}, {"tensors", report.n_tensors}, {"bytes", report.n_bytes}}));
        return 0;
    }
    const size_t n_files = report.files.size();
    cli::write_text("{}: {} tensors, {}{}\n", report.files.back(), report.n_tensors,
                    human_size(report.n_bytes),
                    n_files == 1 ? "" : fmt::format(" in {} files", n_files - 1));
    return 0;
}

}  // namespace

void add_unshard(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb =
        options.verb("unshard", "write the weights as one model, in safetensors files",
                     [args] { return run(*args); });
    verb.examples({"lm-ckpt unshard checkpoints model.safetensors --dtype bf16"});
    verb.positional("CKPT", &args->path,
                    "global_step* directory, directory of steps (its latest step is read), or "
                    "Megatron checkpoint");
    verb.positional("OUT", &args->out, "file to create, NAME.safetensors");
    verb.choice("--dtype", &args->dtype, {"fp32", "bf16", "fp16"},
                "type of the weights in OUT; default: the type in CKPT");
    verb.value("--max-shard-size", &args->max_shard, "SIZE",
               "maximum size of a file; a larger model becomes NAME-00001-of-0000N.safetensors and "
               "the index NAME.safetensors.index.json");
    verb.flag("--force", &args->force, "replace the existing files of OUT");
    verb.flag("--json", &args->json, "print one JSON object on one line");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
