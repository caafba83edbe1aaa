// SPDX-License-Identifier: Apache-2.0
// lm-ckpt repair: writes a checkpoint whose replicated tensors are equal again, from a checkpoint
// of Megatron in which the copies on the tensor-parallel ranks differ.
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "convert/formats/model_format.hpp"
#include "convert/megatron/from_megatron_deepspeed.hpp"
#include "convert/megatron/from_megatron_lm.hpp"
#include "io/json.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string in;
    std::string out;
    std::string from = "mean";
    i64 vocab_size = 0;
    bool force = false;
    bool json = false;
    bool quiet = false;
};

int run(const Args& args, const std::string& command_line) {
    convert::ConversionRequest request;
    request.in = existing_directory(args.in);
    request.out = args.out;
    request.vocab_size = args.vocab_size;
    request.force = args.force;
    request.command_line = command_line;
    request.replicas = args.from == "mean" ? convert::Replicas::mean : convert::Replicas::rank0;
    const convert::ModelFormat format = convert::detect_format(request.in);
    if (format == convert::Format::native) {
        usage_error(
            request.in,
            "needs no repair: it stores each replicated tensor once, and all ranks load this copy. "
            "To find copies that differ in a running training, use lm-train --check-replicas N");
    }
    if (!format.is_megatron()) {
        usage_error(request.in, "expected a checkpoint of Megatron, got the format {}",
                    name_of(format));
    }
    io::OrderedJson drifted = io::OrderedJson::array();
    request.drifted = [&](const std::string& tensor, std::string_view kind, double largest) {
        drifted.push_back({{"tensor", tensor}, {"kind", kind}, {"max", largest}});
        if (args.json) return;
        cli::write_text("{:<56} copies differ by at most {:.6e}\n",
                        fmt::format("{} ({})", tensor, kind), largest);
    };
    std::optional<cli::ProgressLine> progress;
    request.progress = [&](i64 done, i64 total) {
        if (!progress) progress.emplace("repair", "MiB", total, args.quiet);
        progress->update(done);
    };
    const convert::ConversionReport report = format == convert::Format::megatron_lm
                                                 ? convert::from_megatron_lm(request)
                                                 : convert::from_megatron_deepspeed(request);
    if (progress) progress->finish();
    if (args.json) {
        cli::write_stdout(io::json_line({{"path", args.out},
                                         {"from", args.from},
                                         {"bytes", report.n_bytes},
                                         {"repaired", drifted}}));
    } else {
        cli::write_text("{}: {} tensors repaired from {}, {}\n", args.out, drifted.size(),
                        args.from, human_size(report.n_bytes));
    }
    return 0;
}

}  // namespace

void add_repair(cli::Options& options, const std::string& command_line) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "repair",
        "rewrite a checkpoint of Megatron whose tensor ranks have different copies of a tensor",
        [args, command_line] { return run(*args, command_line); });
    verb.examples({"lm-ckpt repair megatron/global_step1000 repaired --from rank0"});
    verb.positional("CKPT", &args->in, "directory of Megatron-DeepSpeed or Megatron-LM");
    verb.positional("OUT", &args->out, "directory to create, with the repaired step of lm-utils");
    verb.choice("--from", &args->from, {"mean", "rank0"},
                "values of a repaired tensor: the mean of the copies, or those of rank 0");
    verb.value("--vocab-size", &args->vocab_size, "N",
               "vocabulary size without padding; default: from the arguments stored in CKPT");
    verb.flag("--force", &args->force, "replace an existing OUT");
    verb.flag("--json", &args->json, "print one JSON object on one line");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
