// SPDX-License-Identifier: Apache-2.0
// lm-preprocess without a verb: JSON Lines to indexed datasets.
#include <algorithm>
#include <mutex>

#include "args.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "io/json.hpp"
#include "preprocess/build.hpp"
#include "preprocess/dataset_build.hpp"

namespace lm::preprocess {
namespace {

constexpr i64 usual_interval = 1000;  // as in Megatron-LM's preprocess_data.py
constexpr double line_interval_s = 60;

// Returns for each output the number of documents that were dropped because they have no tokens.
std::vector<i64> dropped_documents(const BuildTotals& totals,
                                   const std::vector<std::string>& prefixes) {
    std::vector<i64> dropped;
    for (const std::string& prefix : prefixes) {
        const auto metadata = data::read_metadata(prefix);
        LM_CHECK(metadata.has_value(), "expected a metadata file of the finished output, got none");
        dropped.push_back(totals.documents - metadata->documents);
    }
    return dropped;
}

void note_dropped(const BuildTotals& totals, const std::vector<i64>& dropped,
                  const std::vector<std::string>& prefixes) {
    for (size_t k = 0; k < prefixes.size(); ++k) {
        if (dropped[k] == 0) continue;
        note("{}: {} of {} documents have no tokens and were dropped: --keep-empty keeps them{}",
             prefixes[k], dropped[k], totals.documents,
             prefixes.size() > 1 ? ", and gives all keys the same number of documents" : "");
    }
}

// Returns the totals of the run that wrote the output.
BuildTotals totals_of_output(const std::string& prefix) {
    const auto metadata = data::read_metadata(prefix);
    LM_CHECK(metadata.has_value(), "expected a metadata file of the finished output, got none");
    const std::string path = data::metadata_path(prefix);
    return BuildTotals::parse(io::json_get<io::Json>(metadata->origin, "totals", path), path);
}

// Prints the progress and the result of a dataset build. While the build runs, it prints a progress
// bar on a terminal and Megatron-LM's lines elsewhere; at the end, the closing line or the
// statistics.
class BuildReporter final : public BuildObserver {
  public:
    explicit BuildReporter(const Args& args)
        : args_(args),
          interval_(args.log_interval.value_or(usual_interval)),
          terminal_(cli::stderr_is_terminal()) {}

    // Also installs the stop signals.
    void begin(i64 total_bytes) override {
        cli::install_stop_signals();
        bar_.emplace("tokenizing", "MB", total_bytes, args_.quiet || !terminal_);
        watch_ = Stopwatch();
    }
    void resumed(const BuildTotals& done) override {
        const std::lock_guard lock(mutex_);
        before_ += done;
        shown_ = before_.documents + totals_.documents;
    }
    void advance(const BuildTotals& chunk, i64 disk_bytes) override {
        const std::lock_guard lock(mutex_);
        totals_ += chunk;
        disk_bytes_ += disk_bytes;
        const double elapsed_s = std::max(watch_.elapsed_s(), 1e-9);
        if (terminal_) {
            bar_->update(
                disk_bytes_,
                fmt::format("{} docs/s, {} tokens/s",
                            human_count(static_cast<double>(totals_.documents) / elapsed_s),
                            human_count(static_cast<double>(totals_.tokens) / elapsed_s)));
        }
        const i64 documents = before_.documents + totals_.documents;
        // A chunk has many documents, so the count may pass several multiples of the interval at
        // once. With --log-interval each multiple gets a line. Without --log-interval only the last
        // multiple gets a line, at most once a minute.
        const i64 last = documents / interval_ * interval_;
        if (args_.log_interval) {
            for (i64 at = shown_ / interval_ * interval_ + interval_; at <= last; at += interval_)
                print_processed(at, elapsed_s);
        } else if (!terminal_ && elapsed_s >= next_line_s_ && last > shown_) {
            next_line_s_ = elapsed_s + line_interval_s;
            print_processed(last, elapsed_s);
        }
        shown_ = documents;
    }
    bool stop_requested() override { return cli::stop_requested() != cli::StopRequest::none; }

    // Ends the progress bar. Prints the closing line, or with --json the statistics, and notes
    // about the outputs. The outputs must exist.
    void report(const BuildResult& result) {
        if (bar_) bar_->finish();
        const double seconds = result.built ? watch_.elapsed_s() : 0;
        const BuildTotals totals =
            result.built ? result.totals : totals_of_output(result.prefixes.front());
        const i64 resumed_bytes = result.built ? result.resumed_bytes : totals.input_bytes;
        const double mb_per_s =
            static_cast<double>(totals.input_bytes - resumed_bytes) / std::max(seconds, 1e-9) / 1e6;
        const std::vector<i64> dropped = dropped_documents(totals, result.prefixes);
        if (args_.json) {
            io::OrderedJson j = totals.to_json();
            for (size_t k = 0; k < dropped.size(); ++k)
                j["left_out_documents"][args_.build.keys[k]] = dropped[k];
            j["resumed_bytes"] = resumed_bytes;
            j["seconds"] = seconds;
            j["MB_per_s"] = mb_per_s;
            j["prefixes"] = result.prefixes;
            cli::write_stdout(io::json_line(j));
        }
        if (args_.quiet) return;
        if (result.built) {
            cli::print_line(fmt::format(
                "lm-preprocess: {} documents, {} tokens in {:.1f} s ({:.1f} MB/s){}{}",
                totals.documents, totals.tokens, seconds, mb_per_s,
                totals.bad > 0 ? fmt::format(", {} lines skipped", totals.bad) : "",
                totals.replaced > 0
                    ? fmt::format(", {} lines with replaced characters", totals.replaced)
                    : ""));
        }
        note_dropped(totals, dropped, result.prefixes);
    }

  private:
    // Prints Megatron-LM's line. `documents` includes the documents of earlier runs.
    void print_processed(i64 documents, double elapsed_s) const {
        if (args_.quiet) return;
        cli::print_line(fmt::format("Processed {} documents ({:.1f} docs/s, {:.1f} MB/s).",
                                    documents,
                                    static_cast<double>(documents - before_.documents) / elapsed_s,
                                    static_cast<double>(totals_.input_bytes) / elapsed_s / 1e6));
    }

    const Args& args_;
    i64 interval_;  // documents between two lines
    bool terminal_;
    std::optional<cli::ProgressLine> bar_;  // from begin() on
    Stopwatch watch_;                       // restarted by begin()
    std::mutex mutex_;                      // guards the members below
    BuildTotals before_, totals_;           // counts of earlier runs, and counts of this run
    i64 disk_bytes_ = 0;
    i64 shown_ = 0;  // number of documents at the previous advance()
    double next_line_s_ = 0;
};

}  // namespace

namespace {

// Resolves --shard rank. Refuses ranks that would all write the same output.
void apply_launcher(BuildOptions& options) {
    const Launched launch = launched_by({Launcher::open_mpi, Launcher::pmi, Launcher::slurm});
    if (options.shard == "rank") {
        if (launch.by == Launcher::none || launch.size < 1) {
            usage_error("--shard", "rank: needs ranks of mpirun or srun: give i/n, such as 0/8");
        }
        options.shard = fmt::format("{}/{}", launch.rank, launch.size);
        options.output_prefix += fmt::format("-{:05}", launch.rank);
    } else if (launch.size > 1 && !options.shard) {
        usage_error("--shard",
                    "is missing: {} ranks would each encode all of the input: give "
                    "--shard rank, and merge their outputs",
                    launch.size);
    }
}

}  // namespace

int preprocess(const Args& args) {
    check(args);
    BuildOptions options = args.build;
    apply_launcher(options);
    try {
        BuildReporter reporter(args);
        reporter.report(build_datasets(options, reporter));
        return 0;
    } catch (const Stopped&) {
        // A run without --resume removes its unfinished outputs, and the process ends by the
        // signal.
        if (!options.resume) cli::end_by_signal(cli::stop_signal_number());
        note(
            "{}.unfinished: the run was interrupted and its work is kept: run the same command "
            "again",
            options.output_prefix);
        return static_cast<int>(Exit::run_again);
    }
}

}  // namespace lm::preprocess
