// SPDX-License-Identifier: Apache-2.0
// lm-preprocess train-tokenizer: counts the distinct pieces of a corpus with many threads, then
// merges pairs, and writes the tokenizer in the forms the field reads.
#include <algorithm>
#include <future>
#include <memory>

#include "args.hpp"
#include "bad_lines.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/main.hpp"
#include "cli/progress.hpp"
#include "data/jsonl/line_parser.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/inputs.hpp"
#include "io/json.hpp"
#include "text/bpe/pretoken_counts.hpp"
#include "text/tokenizer_json/write_tokenizer.hpp"

namespace lm::preprocess {
namespace {

constexpr i64 chunk_bytes = i64{1} << 20;
constexpr i64 round_bytes = i64{64} << 20;     // read at once, counted, then put together
constexpr size_t long_text = size_t{2} << 20;  // behind which no buffers of its size stay
constexpr const char* temporary_suffix = "train-tokenizer";

struct TrainArgs {
    std::vector<std::string> inputs;
    std::string output;
    bool force = false;
    std::vector<std::string> keys = {"text"};
    std::string on_bad_line = "fail";
    std::optional<i64> vocab_size;
    i64 min_frequency = 2;
    std::vector<std::string> special = {"<|endoftext|>"};
    std::string pretokenizer = "gpt2";
    std::string normalizer = "none";
    std::optional<cli::Bytes> limit;
    i64 most_pieces = 10'000'000;
    i64 workers = 0;
    bool json = false;
    bool quiet = false;
};

struct Totals {
    i64 documents = 0, text_bytes = 0, pieces = 0, bad = 0;
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

text::TokenizerDesign design_of(const TrainArgs& args) {
    using Kind = text::NormalizerStep::Kind;
    text::TokenizerDesign design;
    design.special = args.special;
    design.rule = std::ranges::find(pretokenizers, args.pretokenizer, &NamedRule::name)->rule;
    if (args.normalizer != "none") {
        design.form = args.normalizer == "nfc"    ? Kind::nfc
                      : args.normalizer == "nfd"  ? Kind::nfd
                      : args.normalizer == "nfkc" ? Kind::nfkc
                                                  : Kind::nfkd;
    }
    return design;
}

constexpr const char* file_names[] = {"vocab.json", "merges.txt", "tokenizer.json",
                                      "tokenizer_config.json"};

// --force puts a new directory in the place of the old one: that must hold nothing else.
void check_replaceable(const std::string& directory) {
    if (!io::is_directory(directory))
        usage_error(directory, "exists and is not a directory: choose another --output");
    for (const std::string& name : io::list_directory(directory)) {
        if (std::ranges::find(file_names, name) == std::end(file_names))
            usage_error(directory,
                        "holds {}, which is no file of a tokenizer: choose another --output", name);
    }
}

void check(const TrainArgs& args) {
    if (args.inputs.empty())
        usage_error("--input", "is missing: name JSON Lines files, directories or -");
    if (args.output.empty()) usage_error("--output", "is missing: the tokenizer needs a directory");
    if (!args.vocab_size) usage_error("--vocab-size", "is missing");
    const i64 least = 256 + static_cast<i64>(args.special.size());
    if (*args.vocab_size < least || *args.vocab_size > i64{1} << 20) {
        usage_error("--vocab-size", "{} is not between {} (the bytes and special tokens) and {}",
                    *args.vocab_size, least, i64{1} << 20);
    }
    if (args.min_frequency < 1) usage_error("--min-frequency", "must be at least 1");
    if (args.most_pieces < 1000) usage_error("--max-pieces", "must be at least 1000");
    if (args.limit && args.limit->value < 1)
        usage_error("--limit", "leaves nothing to read: it must be at least 1 byte");
    if (args.workers > 4096) usage_error("--workers", "more than 4096");
    if (std::ranges::find(args.special, "") != args.special.end())
        usage_error("--special-tokens", "a token is empty");
    for (const std::string& token : args.special) {
        if (!is_valid_utf8(token))
            usage_error("--special-tokens", "'{}' is not valid UTF-8", token);
    }
    if (!io::exists(args.output)) return;
    if (!args.force) usage_error(args.output, "exists already: use --force to replace it");
    check_replaceable(args.output);
}

// Parses and splits the chunks of one worker into its share of the counts.
class ChunkCounter {
  public:
    ChunkCounter(const TrainArgs& args, const text::TokenizerDesign& design)
        : parser_(args.keys,
                  args.on_bad_line == "replace" ? data::BadBytes::replace : data::BadBytes::refuse),
          pretokenizer_(text::make_pretokenizer(design.rule)) {
        if (design.form) normalizer_ = text::Normalizer({{*design.form}});
    }

    struct Result {
        Totals totals;
        i64 n_lines = 0;
        BadLines bad;
    };

    Result count(const data::LineChunk& chunk, text::PretokenCounter& counter, int worker) {
        Result result;
        for (std::string_view rest = chunk.text(); !rest.empty(); ++result.n_lines) {
            const std::string_view line = data::take_line(rest);
            if (data::is_blank(line)) continue;
            try {
                for (const data::LineValue& value : parser_.parse(line)) {
                    if (!value.is_list) count_text(value.text, counter, worker, result.totals);
                    for (const std::string_view sentence : value.sentences)
                        count_text(sentence, counter, worker, result.totals);
                }
                ++result.totals.documents;
            } catch (const data::LineError& error) {
                result.bad.add(result.n_lines, error);
            } catch (const text::TextTooLong& error) {
                result.bad.add(result.n_lines, {1, error.what(), data::LineError::Fault::length});
            }
        }
        if (chunk.text().size() > long_text) {
            parser_.release();
            normalized_ = {};
        }
        return result;
    }

  private:
    void count_text(std::string_view text, text::PretokenCounter& counter, int worker,
                    Totals& totals) {
        totals.text_bytes += static_cast<i64>(text.size());
        text = normalizer_.apply(text, normalized_);
        pretokenizer_->start(text);
        u32 begin = 0;
        while (const i64 n = pretokenizer_->next(ends_, std::size(ends_))) {
            totals.pieces += n;
            for (i64 i = 0; i < n; begin = ends_[i++])
                counter.add(worker, text.substr(begin, ends_[i] - begin));
        }
    }

    data::LineParser parser_;
    std::unique_ptr<text::Pretokenizer> pretokenizer_;
    text::Normalizer normalizer_;
    text::Normalizer::Buffers normalized_;
    u32 ends_[512];
};

// The corpus, a round of chunks at a time.
class CorpusCounter {
  public:
    CorpusCounter(const TrainArgs& args, const text::TokenizerDesign& design)
        : args_(args),
          pool_(args.workers > 0 ? static_cast<int>(args.workers) : available_cores()),
          reader_(data::examine_inputs(io::expand_inputs(args.inputs)), chunk_bytes),
          pieces_(pool_.size(), args.most_pieces),
          bad_lines_(parse_on_bad_line(args.on_bad_line)) {
        for (int i = 0; i < pool_.size(); ++i) counters_.emplace_back(args, design);
    }

    void run() {
        cli::Progress progress("counting", "B", -1, args_.quiet);
        std::vector<data::LineChunk> now = read_round();
        while (!now.empty()) {
            try {
                auto next = std::async(std::launch::async, [this] { return read_round(); });
                count_round(now);
                progress.update(bytes_, fmt::format("{} distinct pieces", pieces_.size()));
                now = next.get();
            } catch (const data::BadLineError& bad_line) {
                reader_.fail(bad_line, [] {});
            }
        }
        progress.finish();
        BadLineReport::say_rest(totals_.bad);
    }

    const Totals& totals() const { return totals_; }
    const text::PretokenCounter& pieces() const { return pieces_; }

  private:
    std::vector<data::LineChunk> read_round() {
        std::vector<data::LineChunk> chunks;
        i64 memory = 0;
        while (memory < round_bytes && !(args_.limit && read_ >= args_.limit->value)) {
            data::LineChunk chunk;
            if (!reader_.next(chunk)) break;
            memory += chunk.memory();
            read_ += static_cast<i64>(chunk.text().size());
            chunks.push_back(std::move(chunk));
        }
        return chunks;
    }

    void count_round(const std::vector<data::LineChunk>& chunks) {
        std::vector<ChunkCounter::Result> results(chunks.size());
        pool_.run(static_cast<i64>(chunks.size()), [&](i64 task, int worker) {
            const auto i = static_cast<size_t>(task);
            results[i] = counters_[static_cast<size_t>(worker)].count(chunks[i], pieces_, worker);
        });
        for (size_t i = 0; i < chunks.size(); ++i) add(chunks[i], results[i]);
        pieces_.end_round(pool_);
    }

    void add(const data::LineChunk& chunk, const ChunkCounter::Result& result) {
        if (chunk.first) lines_ = 0;
        const std::string& input = reader_.inputs()[static_cast<size_t>(chunk.file)].path;
        bad_lines_.take(chunk, input, lines_, result.bad);
        lines_ += result.n_lines;
        bytes_ += static_cast<i64>(chunk.text().size());
        totals_.documents += result.totals.documents;
        totals_.text_bytes += result.totals.text_bytes;
        totals_.pieces += result.totals.pieces;
        totals_.bad += result.bad.count;
    }

    const TrainArgs& args_;
    ThreadPool pool_;
    data::ChunkReader reader_;
    text::PretokenCounter pieces_;
    std::vector<ChunkCounter> counters_;
    Totals totals_;
    i64 read_ = 0, bytes_ = 0, lines_ = 0;
    BadLineReport bad_lines_;
};

// AtomicDirectory clears it away.
void note_leftover(std::string directory) {
    while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
    const std::string leftover = directory + ".tmp." + temporary_suffix;
    if (io::exists(leftover))
        note("{}: left behind by a run that was killed: it is removed", leftover);
}

void write(const TrainArgs& args, const text::TrainedBpe& bpe,
           const text::TokenizerDesign& design) {
    note_leftover(args.output);
    auto out = io::AtomicDirectory::create(args.output, temporary_suffix,
                                           args.force ? io::Overwrite::yes : io::Overwrite::no);
    const auto put = [&](const char* name, const std::string& content) {
        io::write_file(out.path() + "/" + name, content, io::Overwrite::no);
    };
    put(file_names[0], text::vocab_json(bpe));
    put(file_names[1], text::merges_txt(bpe));
    put(file_names[2], text::tokenizer_json(bpe, design));
    put(file_names[3], text::tokenizer_config_json(design));
    out.commit();
}

void report(const TrainArgs& args, const CorpusCounter& corpus, const text::TrainedBpe& bpe,
            double count_s, double merge_s) {
    const Totals& totals = corpus.totals();
    const i64 rare = corpus.pieces().dropped_count();
    if (rare > 0) {
        note("--max-pieces {} was passed: pieces seen {} times or less may be missing",
             args.most_pieces, rare);
    }
    const auto n_tokens = static_cast<i64>(bpe.tokens.size());
    if (n_tokens < *args.vocab_size) {
        warn("{}: the vocabulary has {} tokens instead of {}: no other pair occurs {} times",
             args.output, n_tokens, *args.vocab_size, args.min_frequency);
    }
    const double per_token = static_cast<double>(totals.text_bytes) /
                             static_cast<double>(std::max<i64>(1, bpe.corpus_tokens));
    if (args.json) {
        io::OrderedJson j;
        j["documents"] = totals.documents;
        j["text_bytes"] = totals.text_bytes;
        j["skipped_lines"] = totals.bad;
        j["pieces"] = totals.pieces;
        j["distinct_pieces"] = corpus.pieces().size();
        j["forgotten_up_to"] = rare;
        j["vocab_size"] = n_tokens;
        j["merges"] = bpe.merges.size();
        j["bytes_per_token"] = per_token;
        j["count_seconds"] = count_s;
        j["merge_seconds"] = merge_s;
        cli::write_stdout(io::json_line(j));
    }
    if (args.quiet) return;
    std::fprintf(stderr,
                 "lm-preprocess: %lld tokens from %lld documents, %.2f bytes a token; counted in "
                 "%.1f s, merged in %.1f s\n",
                 static_cast<long long>(n_tokens), static_cast<long long>(totals.documents),
                 per_token, count_s, merge_s);
}

int train_tokenizer(const TrainArgs& args) {
    check(args);
    const text::TokenizerDesign design = design_of(args);
    text::BpeTrainer trainer(design.special);
    Stopwatch watch;
    CorpusCounter corpus(args, design);
    corpus.run();
    if (corpus.totals().text_bytes == 0) run_error("--input", "holds no text: nothing was written");
    const double count_s = watch.elapsed_s();
    corpus.pieces().for_each([&](std::string_view piece, i64 count) { trainer.add(piece, count); });
    cli::Progress progress("merging", "tokens", *args.vocab_size, args.quiet);
    const text::TrainedBpe bpe =
        trainer.train(*args.vocab_size, args.min_frequency, [&](i64 n) { progress.update(n); });
    progress.finish();
    write(args, bpe, design);
    report(args, corpus, bpe, count_s, watch.elapsed_s() - count_s);
    return 0;
}

}  // namespace

void declare_train_tokenizer(cli::Options& options) {
    auto args = std::make_shared<TrainArgs>();
    cli::Options& verb = options.verb("train-tokenizer", "learn a byte-level BPE tokenizer",
                                      [args] { return train_tokenizer(*args); });
    verb.values_added(
        "--input", &args->inputs, "FILE",
        "JSON Lines: plain, gzip, xz or zstd by content; directories; - for standard input");
    verb.value("--output", &args->output, "DIR",
               "write vocab.json, merges.txt, tokenizer.json and tokenizer_config.json there");
    verb.flag("--force", &args->force, "replace an existing directory");
    verb.values_added("--json-keys", &args->keys, "KEY", "the members that hold text");
    verb.choice("--on-bad-line", &args->on_bad_line, {"fail", "skip", "replace"},
                "what to do with a line that cannot be used; replace puts U+FFFD for broken "
                "characters only");
    verb.group("Tokenizer");
    verb.value("--vocab-size", &args->vocab_size, "N",
               "tokens to end with: special ones, the 256 bytes, and merged ones");
    verb.value("--min-frequency", &args->min_frequency, "N",
               "pairs that occur less often are not merged");
    verb.values_added("--special-tokens", &args->special, "TOKEN",
                      "the first tokens, in this order");
    verb.choice("--pretokenizer", &args->pretokenizer, pretokenizer_names(),
                "how text is cut into the pieces that tokens never cross");
    verb.choice("--normalizer", &args->normalizer, {"none", "nfc", "nfd", "nfkc", "nfkd"},
                "Unicode normal form of the text, in training and in tokenizer.json");
    verb.group("Running");
    verb.value("--limit", &args->limit, "SIZE",
               "read about this much of the input, after decompression, and no more");
    verb.value("--max-pieces", &args->most_pieces, "N",
               "distinct pieces kept in memory, about 150 bytes each; beyond it the rarest are "
               "forgotten");
    verb.value("--workers", &args->workers, "N", "threads; 0 is one per core");
    verb.flag("--json", &args->json, "print statistics as JSON on standard output");
    verb.flag("--quiet,-q", &args->quiet, "show no progress and no closing line");
}

}  // namespace lm::preprocess
