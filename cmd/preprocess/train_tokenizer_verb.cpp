// SPDX-License-Identifier: Apache-2.0
// lm-preprocess train-tokenizer: options, progress and the closing report.
#include <algorithm>
#include <memory>
#include <optional>

#include "args.hpp"
#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/utf8.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "io/json.hpp"
#include "preprocess/tokenizer_training.hpp"

namespace lm::preprocess {
namespace {

constexpr i64 max_tokens = i64{1} << 20;

struct TrainArgs {
    TrainingOptions training;
    std::string output;
    bool force = false;
    std::string on_bad_line = "fail";
    std::optional<i64> vocab_size;
    std::string pretokenizer = "gpt2";
    std::string normalizer = "none";
    std::optional<cli::Bytes> limit;
    bool json = false;
    bool quiet = false;

    TrainArgs() { training.design.special = {"<|endoftext|>"}; }
};

struct NamedRule {
    const char* name;
    text::PretokenizerRule rule;
};

using text::PretokenizerRule;
constexpr NamedRule pretokenizers[] = {
    {"gpt2", PretokenizerRule::gpt2},
    {"llama3", PretokenizerRule::llama3},
    {"qwen2", PretokenizerRule::qwen2},
    {"qwen3.5", PretokenizerRule::qwen3_5},
    {"o200k", PretokenizerRule::o200k},
    {"tekken", PretokenizerRule::tekken},
    {"bloom", PretokenizerRule::bloom},
    {"starcoder", PretokenizerRule::starcoder},
    {"digits", PretokenizerRule::digits},
    {"deepseek-v3", PretokenizerRule::deepseek_v3},
    {"deepseek-coder", PretokenizerRule::deepseek_coder},
    {"falcon", PretokenizerRule::falcon},
};

std::vector<std::string> pretokenizer_names() {
    std::vector<std::string> names;
    for (const NamedRule& one : pretokenizers) names.emplace_back(one.name);
    return names;
}

void check(const TrainArgs& args) {
    const CorpusOptions& corpus = args.training.corpus;
    const std::vector<std::string>& special = args.training.design.special;
    if (corpus.inputs.empty())
        usage_error("--input", "is missing: name JSON Lines files, directories or -");
    if (args.output.empty())
        usage_error("--output", "is missing: give a directory for the tokenizer");
    if (!args.vocab_size) usage_error("--vocab-size", "is missing");
    const i64 least = 256 + static_cast<i64>(special.size());
    if (*args.vocab_size < least || *args.vocab_size > max_tokens) {
        usage_error("--vocab-size", "{} is not between {} (the bytes and special tokens) and {}",
                    *args.vocab_size, least, max_tokens);
    }
    check_at_least("--min-frequency", args.training.min_frequency, 1);
    check_at_least("--max-pieces", corpus.max_pretokens, 1000);
    if (args.limit && args.limit->value < 1)
        usage_error("--limit", "leaves nothing to read: it must be at least 1 byte");
    check_at_most("--workers", corpus.workers, 4096);
    if (std::ranges::find(special, "") != special.end())
        usage_error("--special-tokens", "a token is empty");
    for (const std::string& token : special) {
        if (!is_valid_utf8(token))
            usage_error("--special-tokens", "'{}' is not valid UTF-8", token);
    }
    check_tokenizer_directory(args.output, args.force);
}

// Returns the options of the training, parsed from the command line.
TrainingOptions training_options(const TrainArgs& args) {
    using Kind = text::NormalizerStep::Kind;
    TrainingOptions options = args.training;
    options.vocab_size = *args.vocab_size;
    options.corpus.on_bad_line = value_in(on_bad_lines, args.on_bad_line).value();
    if (args.limit) options.corpus.limit_bytes = args.limit->value;
    options.design.rule =
        std::ranges::find(pretokenizers, args.pretokenizer, &NamedRule::name)->rule;
    if (args.normalizer != "none") {
        options.design.form = args.normalizer == "nfc"    ? Kind::nfc
                              : args.normalizer == "nfd"  ? Kind::nfd
                              : args.normalizer == "nfkc" ? Kind::nfkc
                                                          : Kind::nfkd;
    }
    return options;
}

void print_statistics(const TrainingResult& result, double bytes_per_token) {
    io::OrderedJson j;
    j["documents"] = result.totals.documents;
    j["text_bytes"] = result.totals.text_bytes;
    j["skipped_lines"] = result.totals.bad;
    j["pieces"] = result.totals.pretokens;
    j["distinct_pieces"] = result.distinct_pretokens;
    j["forgotten_up_to"] = result.dropped_count;
    j["vocab_size"] = result.bpe.tokens.size();
    j["merges"] = result.bpe.merges.size();
    j["bytes_per_token"] = bytes_per_token;
    j["count_seconds"] = result.count_s;
    j["merge_seconds"] = result.merge_s;
    cli::write_stdout(io::json_line(j));
}

void report(const TrainArgs& args, const TrainingResult& result) {
    if (result.dropped_count > 0) {
        note(
            "--max-pieces: there are more than {} distinct pre-tokens: pre-tokens that occur at "
            "most {} times may be missing from the counts",
            args.training.corpus.max_pretokens, result.dropped_count);
    }
    const auto n_tokens = static_cast<i64>(result.bpe.tokens.size());
    if (n_tokens < *args.vocab_size) {
        warn(
            "{}: the vocabulary has {} tokens instead of {}, because no other pair occurs at "
            "least {} times",
            args.output, n_tokens, *args.vocab_size, args.training.min_frequency);
    }
    const double bytes_per_token = static_cast<double>(result.totals.text_bytes) /
                                   static_cast<double>(std::max<i64>(1, result.bpe.corpus_tokens));
    if (args.json) print_statistics(result, bytes_per_token);
    if (args.quiet) return;
    cli::print_line(fmt::format(
        "lm-preprocess: {} tokens from {} documents, {:.2f} bytes a token; counted in {:.1f} s, "
        "merged in {:.1f} s",
        n_tokens, result.totals.documents, bytes_per_token, result.count_s, result.merge_s));
}

int run_train_tokenizer(const TrainArgs& args) {
    check(args);
    const TrainingOptions options = training_options(args);
    std::optional<cli::ProgressLine> bar;
    bar.emplace("counting", "MB", -1, args.quiet);
    const TrainingProgress progress{
        [&](i64 bytes, i64 n_distinct) {
            bar->update(bytes, fmt::format("{} distinct pre-tokens", n_distinct));
        },
        [&] {
            bar->finish();
            bar.emplace("merging", "tokens", options.vocab_size, args.quiet);
        },
        [&](i64 n_tokens) { bar->update(n_tokens); }};
    const TrainingResult result = train_tokenizer(options, progress);
    bar->finish();
    write_tokenizer(args.output, args.force ? io::Overwrite::yes : io::Overwrite::no, result.bpe,
                    options.design);
    report(args, result);
    return 0;
}

}  // namespace

void declare_train_tokenizer(cli::Options& options) {
    auto args = std::make_shared<TrainArgs>();
    CorpusOptions& corpus = args->training.corpus;
    cli::Options& verb = options.verb("train-tokenizer", "learn a byte-level BPE tokenizer",
                                      [args] { return run_train_tokenizer(*args); });
    verb.examples(
        {"lm-preprocess train-tokenizer --input corpus.jsonl --vocab-size 32000 --output "
         "tokenizer"});
    verb.values_added(
        "--input", &corpus.inputs, "FILE",
        "JSON Lines: plain, gzip, xz or zstd by content; directories; - for standard input");
    verb.value("--output", &args->output, "DIR",
               "write vocab.json, merges.txt, tokenizer.json and tokenizer_config.json to DIR");
    verb.flag("--force", &args->force, "replace an existing directory");
    verb.values_added("--json-keys", &corpus.keys, "KEY", "the members that hold text");
    verb.choice("--on-bad-line", &args->on_bad_line, names_in(on_bad_lines),
                "action for a line that cannot be used; replace writes U+FFFD for invalid "
                "characters, and fails for any other fault");
    verb.group("Tokenizer");
    verb.value("--vocab-size", &args->vocab_size, "N",
               "size of the vocabulary: special tokens, the 256 bytes and merged tokens");
    verb.value("--min-frequency", &args->training.min_frequency, "N",
               "pairs that occur less often are not merged");
    verb.values_added("--special-tokens", &args->training.design.special, "TOKEN",
                      "the first tokens, in this order");
    verb.choice("--pretokenizer", &args->pretokenizer, pretokenizer_names(),
                "the rule that divides text into pre-tokens, which no token crosses");
    verb.choice("--normalizer", &args->normalizer, {"none", "nfc", "nfd", "nfkc", "nfkd"},
                "Unicode normal form of the text, in training and in tokenizer.json");
    verb.group("Running");
    verb.value("--limit", &args->limit, "SIZE",
               "stop after reading about this much input, counted after decompression");
    verb.value("--max-pieces", &corpus.max_pretokens, "N",
               "distinct pre-tokens kept in memory, about 150 bytes each; when there are more, the "
               "rarest are dropped");
    verb.value("--workers", &corpus.workers, "N", "threads; 0 is one per core");
    verb.flag("--json", &args->json, "print statistics as JSON on standard output");
    verb.flag("--quiet,-q", &args->quiet, "show no progress and no closing line");
}

}  // namespace lm::preprocess
