// SPDX-License-Identifier: Apache-2.0
// The main road: inputs through the pipeline into one indexed dataset per key.
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "args.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "cli/main.hpp"
#include "cli/progress.hpp"
#include "cli/signals.hpp"
#include "data/indexed_writer.hpp"
#include "io/json.hpp"
#include "pipeline.hpp"

namespace lm::preprocess {
namespace {

constexpr i64 chunk_bytes = i64{1} << 20;
constexpr int most_warnings = 10;

struct Totals {
    i64 documents = 0, tokens = 0, text_bytes = 0, input_bytes = 0;
    i64 blank = 0, bad = 0, replaced = 0;
};

template <typename Id>
i32 largest_of(std::span<const std::byte> bytes) {
    const Id* ids = reinterpret_cast<const Id*>(bytes.data());
    Id largest = 0;
    for (size_t i = 0; i < bytes.size() / sizeof(Id); ++i)
        largest = ids[i] > largest ? ids[i] : largest;
    return bytes.empty() ? -1 : static_cast<i32>(largest);
}

// One key's files.
class Output {
  public:
    Output(std::string prefix, data::TokenType type, io::Overwrite overwrite)
        : writer_(std::move(prefix), type, overwrite), wide_(type == data::TokenType::i32) {}

    void add(const KeyTokens& key) {
        writer_.add(key.tokens(), key.lengths, key.sequences_per_document);
        largest_ = std::max(largest_,
                            wide_ ? largest_of<i32>(key.tokens()) : largest_of<u16>(key.tokens()));
    }
    data::SideFile commit(data::SideFile facts) {
        facts.largest_id = largest_;
        return writer_.commit(std::move(facts));
    }
    const data::IndexedWriter& writer() const { return writer_; }

  private:
    data::IndexedWriter writer_;
    bool wide_;
    i32 largest_ = -1;
};

// Megatron's line where nobody watches, the toolkit's own bar where somebody does.
class Reporter {
  public:
    Reporter(const Args& args, i64 total_bytes)
        : interval_(args.log_interval.value_or(0)),
          quiet_(args.quiet),
          terminal_(cli::stderr_is_terminal()),
          bar_("tokenizing", "B", total_bytes, args.quiet || !terminal_) {}

    void update(const Totals& totals, i64 compressed_bytes) {
        const double elapsed_s = std::max(watch_.elapsed_s(), 1e-9);
        if (terminal_) {
            bar_.update(compressed_bytes,
                        fmt::format("{} documents, {} tokens/s",
                                    human_count(static_cast<double>(totals.documents)),
                                    human_count(static_cast<double>(totals.tokens) / elapsed_s)));
        }
        const bool due = interval_ > 0 ? totals.documents / interval_ > shown_ / interval_
                                       : !terminal_ && elapsed_s > next_line_s_;
        if (!due || quiet_) return;
        shown_ = totals.documents;
        next_line_s_ = elapsed_s + 60;
        std::fprintf(stderr, "Processed %lld documents (%.1f docs/s, %.1f MB/s).\n",
                     static_cast<long long>(totals.documents),
                     static_cast<double>(totals.documents) / elapsed_s,
                     static_cast<double>(totals.input_bytes) / elapsed_s / 1e6);
    }

    double finish() {
        bar_.finish();
        return watch_.elapsed_s();
    }

  private:
    i64 interval_;
    bool quiet_;
    bool terminal_;
    cli::Progress bar_;
    Stopwatch watch_;
    i64 shown_ = 0;
    double next_line_s_ = 60;
};

void check(const Args& args) {
    if (args.inputs.empty())
        usage_error("--input", "is missing: name JSON Lines files, directories or -");
    if (args.output.prefix.empty())
        usage_error("--output-prefix", "is missing: the outputs need a name");
    for (size_t i = 0; i < args.keys.size(); ++i) {
        if (args.keys[i].empty() || args.keys[i].find('/') != std::string::npos) {
            usage_error("--json-keys", "'{}' cannot be part of a file name", args.keys[i]);
        }
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

EncodeRules rules_of(const Args& args, const text::Tokenizer& tokenizer, data::TokenType type) {
    EncodeRules rules;
    rules.keys = args.keys;
    rules.on_bad_line = args.on_bad_line == "skip"      ? OnBadLine::skip
                        : args.on_bad_line == "replace" ? OnBadLine::replace
                                                        : OnBadLine::fail;
    rules.append_eod = args.append_eod;
    rules.keep_empty = args.keep_empty;
    rules.wide = type == data::TokenType::i32;
    if (args.append_eod && !tokenizer.eod()) {
        usage_error("--append-eod", "this tokenizer has no end-of-document token");
    }
    return rules;
}

i64 total_size(const std::vector<std::string>& inputs) {
    i64 total = 0;
    for (const std::string& input : inputs) {
        if (input == "-") return -1;
        total += io::file_size(input);
    }
    return total;
}

// Follows the lines of the inputs as results come by, in order, and says where a bad one stands.
class LineCounter {
  public:
    explicit LineCounter(const std::vector<std::string>& inputs) : inputs_(inputs) {}

    void check(const ChunkResult& result, OnBadLine on_bad_line) {
        if (result.chunk.first) lines_ = 0;
        for (const BadLine& bad : result.bad) {
            const std::string where =
                fmt::format("{}:{}:{}", name(result.chunk.file), lines_ + bad.line + 1, bad.byte);
            if (on_bad_line != OnBadLine::skip) {
                run_error(where, "{}", bad.reason);
            }
            if (n_warned_++ < most_warnings) warn("{}: {}: skipped", where, bad.reason);
        }
        lines_ += result.n_lines;
    }

  private:
    std::string name(int file) const {
        const std::string& input = inputs_[static_cast<size_t>(file)];
        return input == "-" ? "standard input" : input;
    }

    const std::vector<std::string>& inputs_;
    i64 lines_ = 0;
    int n_warned_ = 0;
};

// What a run that was killed left beside the outputs: said, never touched.
void note_leftovers(const std::string& prefix) {
    for (const std::string& path :
         {data::bin_path(prefix), data::side_path(prefix), data::idx_path(prefix)}) {
        for (const std::string& stale : io::stale_temporaries(path)) {
            note("{}: left behind by a run that was killed; it may be removed", stale);
        }
    }
}

struct Stopped {};

// The usual end of a program that a signal ended, once the unfinished outputs are gone.
int die_by_signal() {
    const std::string name = cli::stop_signal_name();
    const int number = name == "SIGINT" ? SIGINT : name == "SIGTERM" ? SIGTERM : SIGUSR1;
    std::signal(number, SIG_DFL);
    std::raise(number);
    return 128 + number;
}

data::SideFile facts_of(const Args& args, const text::Tokenizer& tokenizer) {
    data::SideFile facts;
    facts.tool = fmt::format("lm-preprocess {}", version());
    if (tokenizer.eod()) facts.eod_id = *tokenizer.eod();
    facts.appended_eod = args.append_eod;
    facts.tokenizer = {
        std::string(tokenizer.type()), tokenizer.digest(), tokenizer.vocab_size(),
        text::padded_vocab_size(tokenizer.vocab_size(), args.divisible_by, args.pad_to)};
    return facts;
}

void report(const Args& args, const Totals& totals, double seconds,
            const std::vector<Output>& outputs) {
    const double mb_per_s = static_cast<double>(totals.input_bytes) / std::max(seconds, 1e-9) / 1e6;
    if (args.json) {
        io::OrderedJson j;
        j["documents"] = totals.documents;
        j["tokens"] = totals.tokens;
        j["input_bytes"] = totals.input_bytes;
        j["text_bytes"] = totals.text_bytes;
        j["blank_lines"] = totals.blank;
        j["skipped_lines"] = totals.bad;
        j["replaced_lines"] = totals.replaced;
        j["seconds"] = seconds;
        j["MB_per_s"] = mb_per_s;
        for (const Output& output : outputs) j["prefixes"].push_back(output.writer().prefix());
        cli::write_stdout(j.dump() + "\n");
    }
    if (args.quiet) return;
    std::fprintf(stderr, "lm-preprocess: %lld documents, %lld tokens in %.1f s (%.1f MB/s)%s%s\n",
                 static_cast<long long>(totals.documents), static_cast<long long>(totals.tokens),
                 seconds, mb_per_s,
                 totals.bad > 0 ? fmt::format(", {} lines skipped", totals.bad).c_str() : "",
                 totals.replaced > 0
                     ? fmt::format(", {} lines with replaced characters", totals.replaced).c_str()
                     : "");
}

int run(const Args& args) {
    check(args);
    const auto tokenizer = text::load_tokenizer(args.tokenizer);
    const data::TokenType type = data::token_type_for(tokenizer->vocab_size());
    const EncodeRules rules = rules_of(args, *tokenizer, type);
    const data::SideFile facts = facts_of(args, *tokenizer);
    const std::vector<std::string> inputs = io::expand_inputs(args.inputs);
    std::vector<Output> outputs;
    for (const std::string& key : args.keys) {
        outputs.emplace_back(fmt::format("{}_{}_document", args.output.prefix, key), type,
                             args.output.force ? io::Overwrite::yes : io::Overwrite::no);
    }
    for (const Output& output : outputs) note_leftovers(output.writer().prefix());
    cli::install_stop_signals();
    const int n_workers = args.workers > 0 ? static_cast<int>(args.workers) : available_cores();
    data::ChunkReader reader(inputs, chunk_bytes);
    Reporter reporter(args, total_size(inputs));
    LineCounter lines(inputs);
    Totals totals;
    run_pipeline(reader, rules, *tokenizer, n_workers, [&](const ChunkResult& result) {
        if (cli::stop_requested() != cli::StopRequest::none) throw Stopped();
        lines.check(result, rules.on_bad_line);
        for (size_t k = 0; k < outputs.size(); ++k) outputs[k].add(result.keys[k]);
        totals.documents += result.n_documents;
        totals.text_bytes += result.text_bytes;
        totals.input_bytes += static_cast<i64>(result.chunk.text().size());
        totals.blank += result.n_blank;
        totals.bad += result.n_bad;
        totals.replaced += result.n_replaced;
        totals.tokens = 0;
        for (const Output& output : outputs) totals.tokens += output.writer().n_tokens();
        reporter.update(totals, result.compressed_bytes);
    });
    if (totals.documents == 0) {
        run_error(inputs.size() == 1 ? inputs[0] : "--input",
                  "holds no documents: nothing was written");
    }
    for (Output& output : outputs) output.commit(facts);
    report(args, totals, reporter.finish(), outputs);
    return 0;
}

}  // namespace

int preprocess(const Args& args) {
    try {
        return run(args);
    } catch (const Stopped&) {
        return die_by_signal();
    }
}

}  // namespace lm::preprocess
