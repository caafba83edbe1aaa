// SPDX-License-Identifier: Apache-2.0
// lm-convert: converts checkpoints of lm-utils to Hugging Face and Megatron, and back.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "check/logits_check.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/diff.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "convert/conversion.hpp"
#include "convert/formats/model_format.hpp"
#include "convert/hf/from_hf.hpp"
#include "convert/hf/to_hf.hpp"
#include "convert/megatron/from_megatron_deepspeed.hpp"
#include "convert/megatron/from_megatron_lm.hpp"
#include "convert/megatron/megatron_import.hpp"
#include "convert/megatron/open_megatron.hpp"
#include "convert/megatron/to_deepspeed.hpp"
#include "convert/megatron/to_megatron.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/output_place.hpp"
#include "model_flags.hpp"

namespace {

using namespace lm;

// The report on each output: notes, or with --json one object on standard output.

struct Formats {
    convert::ModelFormat from;
    convert::ModelFormat to;
};

// The tensors whose copies on the tensor ranks of Megatron differ.
struct Drift {
    i64 n = 0;
    double largest = 0;  // absolute difference
    std::string first;   // name of the first tensor whose copies differ
    void add(const std::string& tensor, double difference) {
        if (n++ == 0) first = tensor;
        largest = std::max(largest, difference);
    }
};

// The report of one output. Prints warnings even with `quiet`.
class Report {
  public:
    // `quiet` hides notes.
    Report(std::string in, std::string out, bool quiet, bool json)
        : in_(std::move(in)), out_(std::move(out)), quiet_(quiet), json_(json) {}

    // Each of these functions adds the result of one kind of --check.
    void compared(const check::Comparison& result) {
        checks_.push_back({{"kind", "logits"},
                           {"program", result.theirs.empty() ? "lm-convert" : result.theirs},
                           {"largest_difference", result.largest},
                           {"root_mean_square", result.rms},
                           {"perplexity", {result.our_perplexity, result.their_perplexity}},
                           {"tokens", result.tokens}});
        if (!notes()) return;
        note(
            "--check: logits differ by at most {:.2e}{} (root mean square of the logits: {:.2e}); "
            "perplexity {:.4f} (lm-train's code) and {:.4f} ({}), measured on {}",
            result.largest, result.theirs.empty() ? "" : fmt::format(" from {}", result.theirs),
            result.rms, result.our_perplexity, result.their_perplexity,
            result.theirs.empty() ? "lm-convert's own reference; transformers: see --check-python"
                                  : result.theirs,
            result.tokens);
    }
    void imported(const check::ImportCheck& result) {
        checks_.push_back(
            {{"kind", "perplexity"}, {"perplexity", result.perplexity}, {"tokens", result.tokens}});
        if (notes())
            note("--check: perplexity {:.4f}, measured on {}", result.perplexity, result.tokens);
    }
    void read_again(i64 n_tensors) {
        checks_.push_back({{"kind", "bits"}, {"tensors", n_tensors}});
        if (notes()) note("--check: {} tensors were read again and are bitwise equal", n_tensors);
    }

    // Each of these functions prints the last lines of the report.
    void converted(const Formats& formats, const convert::ConversionReport& result,
                   const Drift& drift) {
        if (drift.n > 0) {
            warn(
                "{}: number of tensors whose copies on several ranks differ: {}, by up to {:.2e} "
                "(first: {}): the copies of rank 0 are used: see lm-ckpt repair",
                in_, drift.n, drift.largest, drift.first);
        }
        const bool no_tokenizer = formats.to.is_hugging_face() && !result.has_tokenizer;
        const bool no_end = result.end_of_document < 0;
        print({{"in", in_},
               {"out", out_},
               {"from", name_of(formats.from)},
               {"to", name_of(formats.to)},
               {"action", "converted"},
               {"tensors", result.n_tensors},
               {"bytes", result.n_bytes},
               {"seconds", watch_.elapsed_s()},
               {"has_tokenizer", result.has_tokenizer},
               {"end_of_document",
                no_end ? io::OrderedJson() : io::OrderedJson(result.end_of_document)},
               {"differing_copies", drift.n},
               {"checks", checks_}});
        if (!notes()) return;
        if (no_tokenizer) {
            note(
                "{}: written without tokenizer files, because {} has none and the vocabulary is "
                "not "
                "GPT-2's: give --tokenizer",
                out_, in_);
        }
        if (no_end) note("{}: the end-of-document id is unknown", out_);
        note("{}: {} tensors, {}", out_, result.n_tensors, human_size(result.n_bytes));
    }
    void skipped(const Formats& formats) {
        print({{"in", in_},
               {"out", out_},
               {"from", name_of(formats.from)},
               {"to", name_of(formats.to)},
               {"action", "skipped"}});
        if (notes()) note("{}: exists already: skipped", out_);
    }
    void proved(const std::string& against) {
        print({{"in", in_}, {"against", against}, {"action", "compared"}, {"checks", checks_}});
    }

  private:
    bool notes() const { return !quiet_ && !json_; }
    void print(io::OrderedJson object) const {
        if (json_) cli::write_stdout(io::json_line(object));
    }

    std::string in_;
    std::string out_;
    bool quiet_;
    bool json_;
    Stopwatch watch_;
    io::OrderedJson checks_ = io::OrderedJson::array();
};

// Rules of the command line that concern several options. Each function throws Error(usage) when
// its rule is broken.

using convert::Format;
using convert::ModelFormat;

// Returns the last part of a path: "global_step8" of "ckpts/global_step8/".
std::string last_part(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path.substr(path.rfind('/') + 1);
}

void refuse(const cli::Options& options, std::string_view option, std::string_view where,
            std::string_view got) {
    if (!options.given(option)) return;
    usage_error(option, "is valid only {}, got {}: omit the option", where, got);
}

// Refuses an empty path among IN... and OUT.
void refuse_empty_paths(const cli::Options& options, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        if (!path.empty()) continue;
        const bool out = &path != &paths.front() && !options.given("--output-dir");
        usage_error(out ? "OUT" : "IN", "is empty: give {}",
                    out ? "the directory to create" : "a checkpoint or a Hugging Face model");
    }
}

// Refuses an option that a conversion between these formats does not use.
void refuse_unused_options(const cli::Options& options, const ModelFormat& from,
                           const ModelFormat& to) {
    const std::string target = fmt::format("--to {}", name_of(to));
    const std::string source = fmt::format("IN in the format {}", name_of(from));
    if (!to.is_megatron()) {
        constexpr std::string_view where = "with --to megatron-lm or megatron-deepspeed";
        refuse(options, "--tensor-model-parallel-size", where, target);
        refuse(options, "--pipeline-model-parallel-size", where, target);
        // The flags of a training may be given as they are to import its checkpoint.
        if (!from.is_megatron()) {
            refuse(options, "--make-vocab-size-divisible-by", where, target);
        } else if (options.given("--make-vocab-size-divisible-by")) {
            note(
                "--make-vocab-size-divisible-by: has no effect: the padding is that of IN, and OUT "
                "has none");
        }
    }
    if (to != Format::megatron_lm) {
        refuse(options, "--transformer-impl", "with --to megatron-lm", target);
    }
    if (!to.is_hugging_face()) {
        constexpr std::string_view where = "when OUT is a Hugging Face model";
        refuse(options, "--format", where, target);
        refuse(options, "--max-shard-size", where, target);
        if (!options.given("--check")) {
            refuse(options, "--tokenizer", "when OUT is a Hugging Face model, or with --check",
                   target);
        }
    }
    if (!from.is_megatron()) {
        constexpr std::string_view where = "when IN is a checkpoint of Megatron";
        refuse(options, "--vocab-size", where, source);
        if (const std::string flag = given_model_flag(options); !flag.empty()) {
            refuse(options, flag, where, source);
        }
    } else {
        refuse(options, "--dtype", "when IN is not a Megatron checkpoint (its types are kept)",
               source);
    }
}

// Refuses an option that --against does not use.
void refuse_options_of_conversions(const cli::Options& options) {
    for (const char* option :
         {"--to", "--from", "--dtype", "--vocab-size", "--tensor-model-parallel-size",
          "--pipeline-model-parallel-size", "--make-vocab-size-divisible-by", "--transformer-impl",
          "--format", "--max-shard-size", "--output-dir", "--force"}) {
        refuse(options, option, "for a conversion", "--against, which writes nothing");
    }
    if (const std::string flag = given_model_flag(options); !flag.empty()) {
        refuse(options, flag, "for a conversion", "--against, which writes nothing");
    }
}

// Returns the path of the output of each input: a directory in `output_dir` with the last part of
// the input's path as its name. Refuses inputs without such a name, and two inputs with the same
// name.
std::vector<std::string> outputs_in(const std::string& output_dir,
                                    const std::vector<std::string>& inputs) {
    std::vector<std::string> outputs;
    std::map<std::string, std::string> input_of;
    for (const std::string& input : inputs) {
        const std::string name = last_part(input);
        if (name.empty() || name == "." || name == "..") {
            usage_error(
                input,
                "expected a path that ends with a name, such as runs/model: the output in {} "
                "gets this name",
                output_dir);
        }
        const auto [other, added] = input_of.emplace(name, input);
        if (!added) {
            usage_error(input,
                        "has the same name as {}: convert this input in a call with another {}",
                        other->second, "--output-dir");
        }
        outputs.push_back(output_dir + (output_dir.ends_with('/') ? "" : "/") + name);
    }
    return outputs;
}

// Reads `exported`, a directory of Megatron, as an import does. Compares its weights, masters and
// moments with the weights, masters and moments of the checkpoint `native`. Returns the number of
// tensors. When a bit differs, throws Error(answer_is_no), which names the output `out`.
i64 compare_export(const std::string& native, const std::string& exported, const std::string& out) {
    i64 n_tensors = 0;
    const auto theirs = convert::open_megatron_tensors(exported, false);
    ckpt::diff(ckpt::open(native), *theirs, ckpt::all_kinds,
               [&](const ckpt::TensorDifference& difference) {
                   ++n_tensors;
                   if (difference.equal()) return;
                   fail(Exit::answer_is_no, "--check",
                        "{}: tensor {} ({}) differs from the same tensor of {}", out,
                        difference.tensor, name_of(difference.kind), native);
               });
    return n_tensors;
}

// `in` is the current input.
struct Args : convert::ConversionRequest {
    // The arguments: IN and OUT; with --output-dir one or more INs; with --against one IN.
    std::vector<std::string> paths;
    std::string output_dir;
    std::string to;
    std::string from;
    std::string dtype_name;
    std::string format;
    std::string transformer_impl;
    cli::Bytes max_shard{5'000'000'000};
    bool checks = false;
    std::string check_python;
    std::string against;
    config::ModelFlags model;
    bool json = false;
    bool quiet = false;
};

std::vector<std::string> format_names() {
    std::vector<std::string> names;
    for (const auto& format : convert::all_formats()) names.emplace_back(name_of(format));
    return names;
}

convert::ModelFormat format_from(const std::string& name) {
    for (const convert::ModelFormat& format : convert::all_formats()) {
        if (name_of(format) == name) return format;
    }
    bug(__FILE__, __LINE__, "expected a format that the parser accepts, got {}", name);
}

convert::ConversionRequest request_of(const Args& args) {
    convert::ConversionRequest request = args;
    if (!args.dtype_name.empty()) request.dtype = dtype_from_name(args.dtype_name);
    request.names = value_in(convert::megatron_names, args.transformer_impl);
    if (args.format == "bin") request.files = convert::WeightFiles::bin;
    request.max_shard_bytes = args.max_shard.value;
    return request;
}

Report report_of(const Args& args) {
    return {args.in, args.out, args.quiet, args.json};
}

// Compares the logits of a checkpoint with the logits of a Hugging Face model. The logits of the
// Hugging Face model come from the reference of lm-utils and, with --check-python, also from
// transformers.
void compare(const Args& args, const std::string& native, const std::string& hf, Report& report) {
    const std::vector<std::string> tokenizers{args.tokenizer, hf};
    report.compared(check::compare_with_hf(native, hf, tokenizers));
    if (args.check_python.empty()) return;
    report.compared(
        check::compare_with_library(native, {args.check_python, "transformers", hf}, tokenizers));
}

// Checks a checkpoint that was imported from Megatron: that its logits are finite and, with
// --check-python, that megatron-core computes the same logits from IN.
void check_imported(const Args& args, const std::string& native, Report& report) {
    const std::vector<std::string> tokenizers{args.tokenizer,
                                              convert::tokenizer_directory(args.in)};
    if (args.check_python.empty()) {
        report.imported(check::check_import(native, tokenizers));
    } else {
        report.compared(check::compare_with_library(
            native, {args.check_python, "megatron-core", args.in}, tokenizers));
    }
}

// Throws Error(usage) for check options that this conversion does not support.
void check_usage(const Args& args, const convert::ModelFormat& from,
                 const convert::ModelFormat& to) {
    check_at_least("--max-shard-size", args.max_shard.value, 1);
    if (!args.check_python.empty() && !args.checks) {
        usage_error("--check-python", "is valid only with --check");
    }
    if (args.checks && to.is_megatron() && !args.dtype_name.empty()) {
        usage_error("--check",
                    "compares the tensors of {} bit by bit, but --dtype changes their bits: omit "
                    "one of the two",
                    name_of(to));
    }
    if (!args.check_python.empty() && to.is_megatron()) {
        usage_error("--check-python", "cannot load the exported format {}: give --check alone",
                    name_of(to));
    }
    if (!args.check_python.empty() && from == convert::Format::megatron_deepspeed) {
        usage_error("--check-python",
                    "no Python package computes the logits of the format {}: give --check alone",
                    name_of(from));
    }
    if (!args.check_python.empty() && from.is_hugging_face() && !io::is_directory(args.in)) {
        usage_error("--check-python", "expected IN to be a directory, got the file {}", args.in);
    }
}

// Runs lm-convert HFDIR --check --against CKPT: compares the logits of two models.
int prove(const Args& args, const cli::Options& options) {
    if (!args.checks) usage_error("--against", "is valid only with --check");
    if (args.against.empty()) usage_error("--against", "is empty: give a checkpoint");
    refuse_options_of_conversions(options);
    const convert::ModelFormat format = convert::detect_format(args.in);
    if (!format.is_hugging_face()) {
        usage_error(args.in, "expected a Hugging Face model, got the format {}", name_of(format));
    }
    check_usage(args, format, convert::Format::native);
    Report report = report_of(args);
    compare(args, args.against, args.in, report);
    report.proved(args.against);
    return 0;
}

// Returns the target format of a conversion without --to.
convert::ModelFormat default_target(const Args& args, const convert::ModelFormat& from) {
    if (from != convert::Format::native) return convert::Format::native;
    const convert::ModelFormat to{convert::Format::hugging_face,
                                  &convert::choose_hf_class(args.in)};
    if (!args.quiet && !args.json)
        note("--to is not given: using {}, which can represent this model", name_of(to));
    return to;
}

convert::ConversionReport convert_model(const convert::ConversionRequest& request,
                                        const Formats& formats) {
    using convert::Format;
    const bool to_native = formats.to == Format::native;
    switch (to_native ? formats.from.format : formats.to.format) {
        case Format::megatron_lm:
            return to_native ? convert::from_megatron_lm(request)
                             : convert::to_megatron_lm(request);
        case Format::megatron_deepspeed:
            return to_native ? convert::from_megatron_deepspeed(request)
                             : convert::to_megatron_deepspeed(request);
        case Format::hugging_face:
            return to_native ? convert::from_hf(request)
                             : convert::to_hf(request, *formats.to.hf_class);
        case Format::native:
            break;
    }
    bug(__FILE__, __LINE__, "expected a conversion from or to native");
}

// Returns the formats of IN and OUT. Throws Error(usage) when there is no such conversion, or when
// the conversion does not use a given option.
Formats formats_of(const Args& args, const cli::Options& options) {
    const convert::ModelFormat from =
        args.from.empty() ? convert::detect_format(args.in) : format_from(args.from);
    const convert::ModelFormat to =
        args.to.empty() ? default_target(args, from) : format_from(args.to);
    if (from == to) usage_error(args.in, "has the format {} already", name_of(to));
    if (to != convert::Format::native && from != convert::Format::native) {
        usage_error("--to", "{} cannot be written from {}: convert to native first", name_of(to),
                    name_of(from));
    }
    refuse_unused_options(options, from, to);
    check_usage(args, from, to);
    return {from, to};
}

void convert_one(const Args& args, const Formats& formats) {
    const convert::ModelFormat& from = formats.from;
    const convert::ModelFormat& to = formats.to;
    const bool to_hf = to.is_hugging_face();
    Report report = report_of(args);
    convert::ConversionRequest request = request_of(args);
    std::optional<cli::ProgressLine> progress;
    request.progress = [&](i64 done, i64 total) {
        if (!progress) progress.emplace("convert", "MiB", total, args.quiet);
        progress->update(done);
    };
    if (args.checks) {
        // The check runs before OUT appears, so that a conversion that fails the check leaves no
        // files.
        request.check = [&](const std::string& finished) {
            if (from.is_megatron()) return check_imported(args, finished, report);
            if (to.is_megatron()) {
                return report.read_again(compare_export(args.in, finished, args.out));
            }
            compare(args, to_hf ? args.in : finished, to_hf ? finished : args.in, report);
        };
    }
    Drift drift;
    if (from.is_megatron()) {
        request.replicas = convert::Replicas::rank0;
        request.drifted = [&](const std::string& tensor, std::string_view, double largest) {
            drift.add(tensor, largest);
        };
    }
    const convert::ConversionReport result = convert_model(request, formats);
    if (progress) progress->finish();
    report.converted(formats, result, drift);
}

// Runs lm-convert IN... --output-dir DIR. Skips an input whose complete output exists. Checks the
// usage for all inputs before it writes anything.
void convert_all(Args& args, const cli::Options& options) {
    const std::vector<std::string> outputs = outputs_in(args.output_dir, args.paths);
    std::vector<Formats> formats;
    for (const std::string& path : args.paths) {
        args.in = path;
        formats.push_back(formats_of(args, options));
    }
    io::refuse_file_as_parent(args.output_dir);
    io::make_directories(args.output_dir);
    for (size_t i = 0; i < outputs.size(); ++i) {
        args.in = args.paths[i];
        args.out = outputs[i];
        if (io::exists(args.out) && !args.force) {
            // A complete output of an earlier call is skipped. check_output() refuses any other
            // file or directory of that name.
            convert::check_output(args.out, formats[i].to);
            report_of(args).skipped(formats[i]);
            continue;
        }
        convert_one(args, formats[i]);
    }
}

int run(Args& args, const cli::Options& options) {
    args.model_flag = given_model_flag(options);
    args.complete = [&](const spec::ModelConfig& stated, const std::string& path) {
        return complete_model(args.model, stated, path);
    };
    const size_t n_paths = args.paths.size();
    refuse_empty_paths(options, args.paths);
    args.in = args.paths.front();
    if (options.given("--against")) {
        if (n_paths > 1)
            usage_error("--against", "expected one path, got {}: give IN only", n_paths);
        return prove(args, options);
    }
    if (options.given("--output-dir")) {
        if (args.output_dir.empty()) usage_error("--output-dir", "is empty: give a directory");
        convert_all(args, options);
        return 0;
    }
    if (n_paths < 2) usage_error("OUT", "is missing: give the directory to create");
    if (n_paths > 2)
        usage_error(args.paths[2],
                    "unexpected operand: expected only IN and OUT: to convert several inputs, give "
                    "--output-dir");
    args.out = args.paths[1];
    convert_one(args, formats_of(args, options));
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
    args.command_line = joined(argc, argv);
    cli::Options options("lm-convert", "convert checkpoints of Hugging Face and Megatron");
    options.positionals(
        "IN... OUT", &args.paths,
        "IN: checkpoint of lm-utils or Megatron (directory or one step), or Hugging Face model "
        "(directory or one .safetensors or .bin file); OUT: directory to create, none with "
        "--output-dir and --against");
    options.group("Conversion");
    options.choice(
        "--to", &args.to, format_names(),
        "format of OUT; default: native; for a native checkpoint, the first Hugging Face "
        "format that supports the model");
    options.choice("--from", &args.from, format_names(), "format of IN; detected by default");
    options.choice("--dtype", &args.dtype_name, {"fp32", "bf16", "fp16"},
                   "type of the weights in OUT; default: the type in IN, but fp32 from Hugging "
                   "Face to native");
    options.value("--vocab-size", &args.vocab_size, "N",
                  "vocabulary size of a Megatron checkpoint without padding; by default from the "
                  "arguments stored in the checkpoint");
    options.value("--tensor-model-parallel-size", &args.tp, "N",
                  "tensor ranks of a Megatron checkpoint to write");
    options.value("--pipeline-model-parallel-size", &args.pp, "N",
                  "pipeline stages of a Megatron checkpoint to write");
    options.value("--make-vocab-size-divisible-by", &args.vocab_multiple, "N",
                  "pad the vocabulary of the written Megatron checkpoint to a multiple of N times "
                  "the tensor ranks");
    options.choice(
        "--transformer-impl", &args.transformer_impl, names_in(convert::megatron_names),
        "tensor names in the Megatron-LM checkpoint to write: the names that Megatron-LM uses with "
        "this flag (default: transformer_engine), or classic, the names before megatron-core");
    options.choice("--format", &args.format, {"safetensors", "bin"},
                   "format of Hugging Face weights: safetensors (default), or pytorch_model.bin");
    options.value("--max-shard-size", &args.max_shard, "SIZE",
                  "maximum size of a file of Hugging Face weights");
    options.value("--tokenizer", &args.tokenizer, "DIR",
                  "copy the tokenizer files of DIR, and use them for --check; by default those in "
                  "the step, or GPT-2's if it has none and the vocabulary has GPT-2's size");
    options.flag("--check", &args.checks,
                 "before OUT appears, compare the logits of an English text in both formats; for a "
                 "Megatron OUT, compare all tensors; for a Megatron IN, check that the logits are "
                 "finite");
    options.value("--check-python", &args.check_python, "PYTHON",
                  "with --check: also compare with the logits that transformers or megatron-core "
                  "computes in PYTHON; PYTHON loads the model, so use only files that you trust");
    options.value("--against", &args.against, "CKPT",
                  "with --check: compare the Hugging Face model IN with this checkpoint and write "
                  "nothing");
    add_model_flags(options, args.model);
    options.group("Output");
    options.value(
        "--output-dir", &args.output_dir, "DIR",
        "convert each IN to DIR/NAME, where NAME is the last part of IN; skip complete outputs");
    options.flag("--force", &args.force, "replace an existing OUT");
    options.flag("--json", &args.json, "print JSON Lines, one object for each output");
    options.flag("--quiet,-q", &args.quiet, "show no progress, no notes and no summary");
    options.examples({"lm-convert checkpoints gpt2-hf --to hf-gpt2", "lm-convert gpt2-hf restored",
                      "lm-convert gpt2-hf --check --against checkpoints",
                      "lm-convert checkpoints/global_step* --output-dir hf"});
    return cli::run_main(argc, argv, options, [&] { return run(args, options); });
}
