// SPDX-License-Identifier: Apache-2.0
// lm-ckpt score: the log-probabilities of texts under the weights of checkpoints, on the CPU.
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "cli/signals.hpp"
#include "engine_options.hpp"
#include "eval/score_data.hpp"
#include "eval/score_results.hpp"
#include "io/output_place.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::vector<std::string> paths;  // CKPT... DATA
    eval::ScoreDataOptions data;
    std::string output;
    bool resume = false;
    bool force = false;
    bool totals = false;
    bool quiet = false;
    EngineArgs engine;
};

// Returns the first line of an unfinished file of results. The line describes the run, so that a
// later process continues only a file of the same run.
io::OrderedJson run_of(const Args& args, const std::vector<std::string>& checkpoints,
                       const eval::ScoreData& data) {
    io::OrderedJson steps = io::OrderedJson::array();
    for (const std::string& path : checkpoints) {
        const eval::OpenedModel model = eval::open_model(path);
        steps.push_back({{"path", model.tensors->path()},
                         {"iteration", model.tensors->iteration()},
                         {"digest", model.digest}});
    }
    const text::TokenizerChoice& tokenizer = args.engine.tokenizer;
    return {{"kind", "run"},
            {"data", data.identity()},
            {"items", data.n_items()},
            {"checkpoints", std::move(steps)},
            {"dtype", args.engine.dtype},
            {"totals", args.totals},
            {"tokenizer",
             {tokenizer.type.value_or(""), tokenizer.model.value_or(""),
              tokenizer.vocab_file.value_or(""), tokenizer.merge_file.value_or("")}}};
}

// Scores the checkpoints in their order. For each checkpoint it writes a line for each item, then a
// line with the total.
class ScoreRun {
  public:
    ScoreRun(const Args& args, eval::ScoreData& data, std::optional<eval::ScoreResults> results)
        : args_(args), data_(data), results_(std::move(results)) {}

    void score(const std::string& path) {
        eval::OpenedModel model = eval::open_model(path);
        eval::ScoreTotals totals;
        i64 item = 0;
        if (take_earlier(totals, item)) return;
        const auto tokenizer = eval::find_tokenizer(model, args_.engine.tokenizer);
        if (data_.needs_tokenizer()) eval::require_tokenizer(model, tokenizer);
        const spec::ModelConfig& config = model.tensors->model();
        data_.tokenize(tokenizer, config.vocab_size, config.max_positions);
        const auto engine = load_engine(*model.tensors, args_.engine);
        cli::ProgressLine progress("score", "items", data_.n_items(), args_.quiet);
        for (; item < data_.n_items(); ++item) {
            stop_if_requested();
            io::OrderedJson line = data_.score(item, *engine, tokenizer);
            totals.add(line);
            emit(model, line, false);
            progress.update(item + 1);
        }
        progress.finish();
        emit(model, totals.to_json(), true);
    }

    void finish() {
        if (results_) results_->finish();
    }

  private:
    // Adds the results that an earlier process has written for this checkpoint to `totals`, and the
    // number of these results to `item`. Returns whether the earlier process has scored all items.
    bool take_earlier(eval::ScoreTotals& totals, i64& item) {
        if (!results_) return false;
        const auto& earlier = results_->earlier();
        while (next_earlier_ < earlier.size()) {
            const io::OrderedJson& line = earlier[next_earlier_++];
            if (line.at("kind") == "total") return true;
            totals.add(line);
            ++item;
        }
        return false;
    }

    void stop_if_requested() const {
        if (!results_ || cli::stop_requested() == cli::StopRequest::none) return;
        fail(Exit::run_again, cli::stop_signal_name(),
             "stopped: {}.partial has the results so far: run the same command again with --resume",
             args_.output);
    }

    void emit(const eval::OpenedModel& model, const io::OrderedJson& line, bool total) {
        io::OrderedJson named{{"checkpoint", model.tensors->path()}};
        const i64 iteration = model.tensors->iteration();
        const bool is_known = iteration > 0 || !model.digest.empty();
        if (total && is_known) named["iteration"] = iteration;
        named.update(line);
        if (results_) return results_->add(named);
        if (args_.totals && !total) return;
        cli::write_stdout(io::json_line(named));
        cli::flush_stdout();
    }

    const Args& args_;
    eval::ScoreData& data_;
    std::optional<eval::ScoreResults> results_;
    size_t next_earlier_ = 0;
};

int run(const Args& args) {
    if (args.paths.size() < 2) usage_error("DATA", "is missing: give a checkpoint and the data");
    if (args.resume && args.output.empty()) {
        usage_error("--resume", "needs --output, the file that an earlier run has begun");
    }
    if (args.totals && !args.output.empty()) {
        usage_error("--totals",
                    "cannot be combined with --output, which has all results: remove one");
    }
    const std::vector<std::string> checkpoints(args.paths.begin(), args.paths.end() - 1);
    const auto data = eval::ScoreData::open(args.paths.back(), args.data);
    std::optional<eval::ScoreResults> results;
    if (!args.output.empty()) {
        io::require_parent(args.output);
        cli::install_stop_signals();
        results = eval::ScoreResults::open(
            args.output, run_of(args, checkpoints, *data),
            args.resume ? eval::Unfinished::resume : eval::Unfinished::replace, args.force);
    }
    ScoreRun scores(args, *data, std::move(results));
    for (const std::string& path : checkpoints) scores.score(path);
    scores.finish();
    return 0;
}

}  // namespace

void add_score(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb("score", "compute the log-probabilities of texts, on the CPU",
                                      [args] { return run(*args); });
    verb.not_called({"eval", "evaluate", "perplexity"});
    verb.examples(
        {"lm-ckpt score checkpoints corpus_text_document --totals",
         "lm-ckpt score checkpoints/global_step* corpus.jsonl --limit 100 --output scores.jsonl"});
    verb.positionals("CKPT... DATA", &args->paths,
                     "checkpoints (as for generate), then the data: a PREFIX of lm-preprocess, or "
                     "a file of JSON Lines (-: standard input), where each line has \"text\", or "
                     "\"context\" and \"continuation\", or \"context\" and \"choices\"");
    verb.value("--json-key", &args->data.text_key, "KEY",
               "key of the member that holds the document");
    verb.value("--limit", &args->data.limit, "N", "score only the first N items; 0: all");
    add_engine_options(verb, args->engine);
    verb.group("Output");
    verb.flag("--totals", &args->totals, "print only the total of each checkpoint");
    verb.value("--output", &args->output, "FILE",
               "write the results to FILE instead of standard output");
    verb.flag("--resume", &args->resume,
              "continue FILE.partial, which a run with the same arguments has begun");
    verb.flag("--force", &args->force, "replace an existing FILE");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
