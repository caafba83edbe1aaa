// SPDX-License-Identifier: Apache-2.0
// lm-convert: converts checkpoints of lm-utils to Hugging Face directories and back.
#include <array>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "check.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress.hpp"
#include "convert/from_hf_gpt2.hpp"
#include "convert/to_hf_gpt2.hpp"

namespace {

using namespace lm;

struct Args {
    std::string in;
    std::string out;
    std::string to;
    std::string from;
    std::string dtype;
    cli::Bytes max_shard{5'000'000'000};
    std::string tokenizer;
    bool check = false;
    bool force = false;
    bool quiet = false;
};

constexpr std::array formats{convert::Format::native, convert::Format::hf_gpt2};

convert::Format format_from(const std::string& name) {
    for (const convert::Format format : formats) {
        if (name_of(format) == name) return format;
    }
    bug(__FILE__, __LINE__, "expected a format that the parser accepts, got {}", name);
}

convert::ConversionRequest request_of(const Args& args, const std::string& command_line) {
    convert::ConversionRequest request;
    request.in = args.in;
    request.out = args.out;
    if (!args.dtype.empty()) request.dtype = dtype_from_name(args.dtype);
    request.max_shard_bytes = args.max_shard.value;
    request.tokenizer = args.tokenizer;
    request.force = args.force;
    request.command_line = command_line;
    return request;
}

void check(const Args& args, convert::Format to) {
    if (args.max_shard.value < 1)
        usage_error("--max-shard-size", "must be positive, got {}", args.max_shard.value);
    if (to == convert::Format::native && !args.tokenizer.empty()) {
        usage_error("--tokenizer",
                    "is valid only with --to hf-gpt2: a checkpoint has no tokenizer");
    }
}

// Runs before OUT appears: a conversion that fails the check leaves no files.
void compare(const Args& args, const convert::ConversionRequest& request, convert::Format to,
             const std::string& finished) {
    const bool to_hf = to == convert::Format::hf_gpt2;
    const std::string& native = to_hf ? args.in : finished;
    const std::string& hf = to_hf ? finished : args.in;
    const DType stored = ckpt::open(native).manifest().tensors.at(0).dtype;
    const auto result = convert_tool::compare_logits(native, hf, request.dtype.value_or(stored));
    if (args.quiet) return;
    note("--check: logits differ by at most {:.2e}, their root mean square is {:.2e}",
         result.largest, result.rms);
}

int run(const Args& args, const std::string& command_line) {
    if (args.to.empty()) usage_error("--to", "is missing: give hf-gpt2 or native");
    const convert::Format to = format_from(args.to);
    check(args, to);
    const convert::Format from =
        args.from.empty() ? convert::detect_format(args.in) : format_from(args.from);
    if (from == to) usage_error(args.in, "has the format {} already", name_of(to));
    convert::ConversionRequest request = request_of(args, command_line);
    cli::Progress progress("convert", "B", -1, args.quiet);
    request.progress = [&](i64 bytes) { progress.update(bytes); };
    if (args.check) {
        request.check = [&](const std::string& finished) { compare(args, request, to, finished); };
    }
    const convert::ConversionReport report = to == convert::Format::hf_gpt2
                                                 ? convert::to_hf_gpt2(request)
                                                 : convert::from_hf_gpt2(request);
    progress.finish();
    if (to == convert::Format::hf_gpt2 && !report.has_tokenizer) {
        note(
            "{}: written without tokenizer files, since the vocabulary is not that of GPT-2: give "
            "--tokenizer",
            args.out);
    }
    if (report.end_of_document < 0) {
        note("{}: the end-of-document id is unknown", args.out);
    }
    if (!args.quiet) {
        note("{}: {} tensors, {}", args.out, report.n_tensors, human_size(report.n_bytes));
    }
    return 0;
}

std::string joined(int argc, char** argv) {
    std::string text;
    for (int i = 0; i < argc; ++i) text += (i > 0 ? " " : "") + std::string(argv[i]);
    return text;
}

}  // namespace

int main(int argc, char** argv) {
    Args args;
    cli::Options options("lm-convert",
                         "convert checkpoints to and from the format of Hugging Face");
    options.positional(
        "IN", &args.in,
        "checkpoint (directory or one step), or Hugging Face model (directory or one "
        ".safetensors file)");
    options.positional("OUT", &args.out, "directory to create");
    options.group("Conversion");
    options.choice("--to", &args.to, {"hf-gpt2", "native"}, "format of OUT (required)");
    options.choice("--from", &args.from, {"hf-gpt2", "native"},
                   "format of IN; detected by default");
    options.choice("--dtype", &args.dtype, {"fp32", "bf16", "fp16"},
                   "type of the weights in OUT; by default that of IN for Hugging Face, fp32 for "
                   "native");
    options.value("--max-shard-size", &args.max_shard, "SIZE",
                  "maximum size of a file of Hugging Face weights");
    options.value(
        "--tokenizer", &args.tokenizer, "DIR",
        "copy the tokenizer files of DIR; by default those of GPT-2 if the vocabulary has its "
        "size");
    options.flag("--check", &args.check,
                 "compute the logits in both formats and compare them before OUT appears");
    options.group("Output");
    options.flag("--force", &args.force, "replace an existing OUT");
    options.flag("--quiet,-q", &args.quiet, "show no progress and no summary");
    options.epilogue(
        "Examples:\n"
        "  lm-convert checkpoints gpt2-hf --to hf-gpt2\n"
        "  lm-convert gpt2-hf restored --to native\n");
    return cli::run_main(argc, argv, options, [&] { return run(args, joined(argc, argv)); });
}
