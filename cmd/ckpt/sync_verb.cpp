// SPDX-License-Identifier: Apache-2.0
// lm-ckpt sync: backs up a directory of steps. share/cron/backup calls it.
#include <memory>
#include <mutex>
#include <optional>

#include "base/bounds.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/problem_list.hpp"
#include "ckpt/history/run_logs.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "keep_options.hpp"
#include "paths.hpp"
#include "sync/sync.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string source;
    std::string destination;
    std::vector<std::string> logs;
    RuleFlags rules;
    bool weights_only = false;
    bool verify = false;
    std::optional<cli::Bytes> bwlimit;
    i64 retries = 3;
    bool quiet = false;
};

// Shows the progress of the work, with a new progress line for each part of it.
class SyncProgress {
  public:
    explicit SyncProgress(bool quiet) : quiet_(quiet) {}
    void update(const std::string& what, i64 done, i64 total) {
        const std::lock_guard lock(mutex_);
        if (what != what_ || total != total_) {
            line_.reset();
            what_ = what;
            total_ = total;
            if (total > 0) line_.emplace(what, "MiB", total, quiet_);
        }
        if (line_) line_->update(done);
    }

  private:
    bool quiet_;
    std::mutex mutex_;
    std::string what_;
    i64 total_ = 0;
    std::optional<cli::ProgressLine> line_;
};

// Returns the JSON line that is printed at the end.
std::string line_of(const sync::SyncReport& report, const Args& args, double seconds) {
    return io::json_line({{"source", args.source},
                          {"destination", args.destination},
                          {"copied", report.copied},
                          {"bytes", report.bytes},
                          {"present", report.present},
                          {"verified", report.verified},
                          {"removed", report.removed},
                          {"optimizer_state_removed", report.state_removed},
                          {"set_aside", report.set_aside},
                          {"logs", report.n_logs},
                          {"failed", report.failed},
                          {"seconds", seconds}});
}

int run(const Args& args) {
    if (args.bwlimit) check_at_least("--bwlimit", args.bwlimit->value, 1);
    const std::string source = directory_of_steps(args.source);
    if (!has_step(source) && !io::exists(fmt::format("{}/{}", source, ckpt::latest_file)))
        note("{}: the run has not saved a step yet", source);
    ckpt::check_patterns(args.logs);  // before the first copy
    const Stopwatch watch;
    SyncProgress progress(args.quiet);
    const auto report = sync::sync(
        {.source = source,
         .destination = args.destination,
         .logs = args.logs,
         .rules = parse_rules(args.rules),
         .weights_only = args.weights_only,
         .verify = args.verify,
         .bytes_per_second = args.bwlimit ? std::optional(args.bwlimit->value) : std::nullopt,
         .retries = args.retries,
         .progress = [&](const std::string& what, i64 done, i64 total) {
             progress.update(what, done, total);
         }});
    if (!report) {
        note("{}: another sync to this destination is running: nothing to do", args.destination);
        cli::write_stdout(io::json_line(
            {{"source", args.source}, {"destination", args.destination}, {"running", true}}));
        return 0;
    }
    cli::write_stdout(line_of(*report, args, watch.elapsed_s()));
    throw_problems(report->failed, Exit::failure);
    return 0;
}

}  // namespace

void add_sync(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "sync", "back up a directory of steps: copy the complete steps that DEST lacks",
        [args] { return run(*args); });
    verb.examples({"lm-ckpt sync checkpoints backup --logs 'train*.log' --keep-last 5",
                   "lm-ckpt sync checkpoints backup.example.org:/store/run --bwlimit 100MiB"});
    verb.positional("SRC", &args->source, "directory of global_step* directories");
    verb.positional("DEST", &args->destination,
                    "directory, host:path (rsync over ssh), or remote:path of rclone");
    verb.values_added("--logs", &args->logs, "PATTERN",
                      "also copy the matching files to DEST/logs");
    add_rules(verb, args->rules);
    verb.flag("--weights-only", &args->weights_only, "do not copy masters and Adam moments");
    verb.flag("--verify", &args->verify,
              "also compare the bytes of the steps that DEST already has with those of SRC");
    verb.value("--bwlimit", &args->bwlimit, "SIZE", "copy at most SIZE bytes per second");
    verb.value("--retries", &args->retries, "N", "repeat a failed transfer at most N times");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
