// SPDX-License-Identifier: Apache-2.0
#include "args.hpp"

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "config/tokenizer_flags.hpp"

namespace lm::preprocess {
namespace {

void declare_megatron(cli::Options& options) {
    options.accepted("--dataset-impl", 1, "the output is always the mmap format");
    options.accepted("--partitions", 1, "one output is written, in input order");
    options.accepted("--keep-sequential-samples", 0, "documents always keep the input's order");
    options.accepted("--keep-newlines", 0, "text is never split into sentences");
    options.accepted("--lang", 1, "text is never split into sentences");
    options.refused(
        "--split-sentences", 0,
        "sentence splitting is not done: give a list of sentences per document instead");
    options.refused("--data-impl", 1, "the output is always the mmap format: leave it out");
    options.refused("--num-workers", 1, "that is --workers here, as in Megatron");
    options.refused("--max-documents", 1,
                    "all documents are taken: give fewer (head -n N | ... --input -)");
    options.refused("--find-optimal-num-workers", 0, "use --workers, the default is one per core");
}

}  // namespace

void check_names_files(const std::string& prefix) {
    if (prefix == "-") {
        usage_error("--output-prefix",
                    "standard output cannot hold several files: give the beginning of their names");
    }
    const std::string name = prefix.substr(prefix.find_last_of('/') + 1);
    if (name.empty() || name == "." || name == "..")
        usage_error("--output-prefix",
                    "'{}' is a directory: add how the names of files in it begin", prefix);
}

void declare_tokenizer(cli::Options& options, text::TokenizerChoice& choice) {
    options.group("Tokenizer");
    config::add_tokenizer_options(options, choice,
                                  "without any of these options GPT-2 with its own tables");
    options.value("--special-in-text", &choice.special, "plain|parse",
                  "whether special tokens inside documents are plain text or become their ids; "
                  "default: plain, or parse for a tokenizer.json");
}

void declare(cli::Options& options, Args& args) {
    options.group("Input and output");
    options.values_added(
        "--input", &args.inputs, "FILE",
        "JSON Lines: plain, gzip, xz or zstd by content; directories; - for standard input");
    options.value("--output-prefix", &args.output.prefix, "P",
                  "write P_KEY_document.bin, .idx and .json");
    options.values_added("--json-keys", &args.keys, "KEY",
                         "the members that hold text; one output each");
    options.flag("--append-eod", &args.append_eod,
                 "end every document with the end-of-document token");
    options.flag("--keep-empty", &args.keep_empty,
                 "let documents without tokens count in the document index, as Megatron-LM since "
                 "23.06 does");
    options.choice("--on-bad-line", &args.on_bad_line, {"fail", "skip", "replace"},
                   "what to do with a line that cannot be used; replace puts U+FFFD for broken "
                   "characters only");
    options.flag("--force", &args.output.force, "replace existing outputs");
    declare_tokenizer(options, args.tokenizer);
    options.value("--make-vocab-size-divisible-by", &args.divisible_by, "N",
                  "padding of the vocabulary that the side file states");
    options.value("--pad-vocab-size-to", &args.pad_to, "N",
                  "padded vocabulary size that the side file states");
    options.group("Running");
    options.value("--workers", &args.workers, "N", "threads; 0 is one per core");
    options.value("--shard", &args.shard, "I/N",
                  "take share I (from 0) of N of the input; merged in order, the outputs of all N "
                  "are what one run makes");
    options.flag(
        "--resume", &args.resume,
        "go on with what a run that was stopped or killed left, if any, and leave the work "
        "for another --resume when this one is stopped");
    options.value("--rank-timeout", &args.rank_timeout, "TIME",
                  "under mpirun or srun: how long a rank may show no sign of life");
    options.value("--log-interval", &args.log_interval, "N",
                  "a progress line at every N documents; left out: at every 1000, but no more than "
                  "one a minute");
    options.flag("--json", &args.json, "print the final statistics as JSON on standard output");
    options.flag("--quiet,-q", &args.quiet, "show no progress and no closing line");
    declare_megatron(options);
}

void check(const Args& args) {
    if (args.inputs.empty())
        usage_error("--input", "is missing: name JSON Lines files, directories or -");
    if (args.output.prefix.empty())
        usage_error("--output-prefix", "is missing: the outputs need a name");
    check_names_files(args.output.prefix);
    for (size_t i = 0; i < args.keys.size(); ++i) {
        if (args.keys[i].empty() || args.keys[i].find('/') != std::string::npos) {
            usage_error("--json-keys", "'{}' cannot be part of a file name", args.keys[i]);
        }
        if (!is_valid_utf8(args.keys[i]))
            usage_error("--json-keys", "'{}' is not valid UTF-8: no line has it", args.keys[i]);
        for (size_t j = 0; j < i; ++j) {
            if (args.keys[i] == args.keys[j])
                usage_error("--json-keys", "'{}' stands twice", args.keys[i]);
        }
    }
    if (args.keys.size() > 63) usage_error("--json-keys", "more than 63 keys");
    if (args.workers > 4096) usage_error("--workers", "more than 4096");
    if (args.log_interval && *args.log_interval < 1)
        usage_error("--log-interval", "must be at least 1");
}

}  // namespace lm::preprocess
