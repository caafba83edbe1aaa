// SPDX-License-Identifier: Apache-2.0
#include "args.hpp"

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/problem_list.hpp"
#include "base/utf8.hpp"
#include "config/tokenizer_flags.hpp"
#include "io/output_place.hpp"
#include "preprocess/bad_lines.hpp"

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
    options.refused("--data-impl", 1, "the output is always the mmap format: omit the option");
    options.refused("--num-workers", 1, "use --workers, which is Megatron's name too");
    for (const char* name : {"-i", "--in", "--file", "--input-file"})
        options.refused(name, 1, "use --input");
    for (const char* name : {"-o", "--out", "--output", "--output-dir"})
        options.refused(name, 1, "use --output-prefix");
    for (const char* name : {"--key", "--text-key", "--field", "--column"})
        options.refused(name, 1, "use --json-keys");
    for (const char* name : {"-j", "--jobs", "--threads"})
        options.refused(name, 1, "use --workers");
    for (const char* name : {"-f", "--overwrite"}) options.refused(name, 0, "use --force");
    options.refused("--max-documents", 1,
                    "all documents are encoded: pass fewer lines (head -n N | ... --input -)");
    options.refused("--find-optimal-num-workers", 0,
                    "use --workers, whose default is one per core");
}

}  // namespace

void check_names_files(const std::string& prefix) {
    if (prefix == "-") {
        usage_error("--output-prefix",
                    "standard output cannot hold several files: give a prefix for the paths of the "
                    "output files");
    }
    const std::string name = prefix.substr(prefix.find_last_of('/') + 1);
    if (name.empty() || name == "." || name == "..")
        usage_error("--output-prefix", "'{}' is a directory: add a prefix for the file names",
                    prefix);
    io::require_parent(prefix, "--output-prefix");
}

void declare_tokenizer(cli::Options& options, text::TokenizerChoice& choice) {
    options.group("Tokenizer");
    config::add_tokenizer_options(options, choice,
                                  "without any of these options: GPT-2 with its own tables");
    options.value("--special-in-text", &choice.special, "plain|parse",
                  "how to encode special tokens in documents: as plain text, or as their ids; "
                  "default: plain, or parse for a tokenizer.json");
}

void declare(cli::Options& options, Args& args) {
    options.group("Input and output");
    options.values_added(
        "--input", &args.build.inputs, "FILE",
        "JSON Lines: plain, gzip, xz or zstd by content; directories; - for standard input");
    options.value("--output-prefix", &args.build.output_prefix, "PREFIX",
                  "write PREFIX_KEY_document.bin, .idx and .json");
    options.values_added("--json-keys", &args.build.keys, "KEY",
                         "the members that hold text; one output each");
    options.flag("--append-eod", &args.build.append_eod,
                 "end every document with the end-of-document token");
    options.flag("--keep-empty", &args.build.keep_empty,
                 "give documents without tokens an entry in the document index, as Megatron-LM "
                 "does since version 23.06");
    options.choice("--on-bad-line", &args.build.on_bad_line, names_in(on_bad_lines),
                   "action for a line that cannot be used; replace writes U+FFFD for invalid "
                   "characters, and fails for any other fault");
    options.flag("--force", &args.build.force, "replace existing outputs");
    options.operands_mean("--input");
    declare_tokenizer(options, args.build.tokenizer);
    options.value("--make-vocab-size-divisible-by", &args.build.divisible_by, "N",
                  "padding of the vocabulary that the metadata file states");
    options.value("--pad-vocab-size-to", &args.build.pad_to, "N",
                  "padded vocabulary size that the metadata file states");
    options.group("Running");
    options.value("--workers", &args.build.workers, "N", "threads; 0 is one per core");
    options.value("--shard", &args.build.shard, "I/N|rank",
                  "divide the input into N shares and encode only share I, counted from 0; the "
                  "outputs of all shares, merged in order, equal the output of one run; rank: I "
                  "and N of mpirun or srun, and PREFIX-I, with five digits, as prefix");
    options.flag("--resume", &args.build.resume,
                 "continue the unfinished work of an earlier run, if any; when this run is "
                 "stopped, keep its "
                 "work for the next --resume");
    options.value(
        "--log-interval", &args.log_interval, "N",
        "print a progress line every N documents; default: every 1000, but at most one line a "
        "minute");
    options.flag("--json", &args.json, "print the final statistics as JSON on standard output");
    options.flag("--quiet,-q", &args.quiet, "show no progress and no closing line");
    declare_megatron(options);
}

void check(const Args& args) {
    const BuildOptions& build = args.build;
    std::vector<std::string> missing;
    if (build.inputs.empty())
        missing.emplace_back("--input: is missing: name JSON Lines files, directories or -");
    if (build.output_prefix.empty())
        missing.emplace_back(
            "--output-prefix: is missing: give a prefix for the paths of the output files");
    throw_problems(missing);
    for (const std::string& input : build.inputs)
        if (input.empty()) usage_error("--input", "'' is not a path: is a variable unset?");
    check_names_files(build.output_prefix);
    for (size_t i = 0; i < build.keys.size(); ++i) {
        if (build.keys[i].empty())
            usage_error("--json-keys", "'' is empty: give a key such as text");
        if (build.keys[i].find('/') != std::string::npos) {
            usage_error("--json-keys", "'{}' cannot be part of a file name", build.keys[i]);
        }
        if (!is_valid_utf8(build.keys[i]))
            usage_error("--json-keys", "'{}' is not valid UTF-8, so no line can have this key",
                        build.keys[i]);
        for (size_t j = 0; j < i; ++j) {
            if (build.keys[i] == build.keys[j])
                usage_error("--json-keys", "'{}' is given twice", build.keys[i]);
        }
    }
    if (build.keys.size() > 63)
        usage_error("--json-keys", "expected at most 63 keys, got {}", build.keys.size());
    check_at_most("--workers", build.workers, 4096);
    check_at_least("--log-interval", args.log_interval, 1);
}

}  // namespace lm::preprocess
