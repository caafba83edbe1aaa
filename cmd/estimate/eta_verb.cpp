// SPDX-License-Identifier: Apache-2.0
// lm-estimate eta: the progress, speed and end of a training, from its log.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/bounds.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "config/schedule_flags.hpp"
#include "eta_parts.hpp"
#include "eta_picture.hpp"
#include "figures.hpp"
#include "io/file.hpp"
#include "io/inputs.hpp"
#include "io/lines.hpp"
#include "metrics/log_files.hpp"
#include "metrics/log_summary.hpp"
#include "metrics/remaining.hpp"
#include "run_flags.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

struct Flags {
    config::TrainFlags train;
    std::vector<std::string> logs;
    std::optional<double> hours_per_day;
    i64 window = 100;
    cli::Duration gap{600};
    std::optional<std::string> max_age;  // "auto", "5x" or a time
    std::optional<i64> nodes, log_nodes;
    bool why = false;
    bool follow = false;
    cli::Duration interval{10};
    PictureFlags picture;
    std::string plot_over;  // the x axis of the picture
    std::vector<std::string> overlay;
    OutputFlags output;
};

constexpr double longest_left_s = 1e11;  // thousands of years: not a useful date

// Adds samples, tokens and operations per second, computed from `sums`. Omits a rate when the log
// does not have its numbers.
void add_rates(Figures& figures, const metrics::LogSums& sums, const std::string& which,
               const char* formula) {
    const auto add = [&](const char* key, const char* label, double value, const char* how) {
        if (value > 0) figures.push_back({key, which + label, Unit::plain, value, how});
    };
    add("step_s", "seconds per iteration", sums.mean_step_s(), formula);
    if (!(sums.step_s > 0)) return;
    add("samples_per_s", "samples per second", sums.samples / sums.step_s,
        "samples of the iterations above / seconds of these iterations");
    add("tokens_per_s", "tokens per second", sums.tokens / sums.step_s,
        "tokens of the iterations above / seconds of these iterations");
    if (!(sums.flops_s > 0)) return;
    add("tflops", "TFLOP/s per GPU", sums.flops / sums.flops_s / 1e12,
        "the value of the log, averaged over time");
}

void add_done(Figures& figures, const metrics::LoggedIteration& last, const metrics::Left& left) {
    add_count(figures, "iteration", "iteration", last.iteration, "the last one logged");
    add_count(figures, "total_iterations", "of", last.iteration + left.iterations,
              "iteration + iterations left");
    if (last.consumed_samples) {
        add_count(figures, "consumed_samples", "samples", *last.consumed_samples);
    }
    if (last.consumed_tokens) {
        add_count(figures, "consumed_tokens", "tokens", *last.consumed_tokens);
    }
    const bool by_samples = left.samples && last.consumed_samples && *last.consumed_samples > 0;
    const double done = as_double(by_samples ? *last.consumed_samples : last.iteration);
    const double rest = as_double(by_samples ? *left.samples : left.iterations);
    figures.push_back({"done", "done", Unit::share, done + rest > 0 ? done / (done + rest) : 1.0,
                       "samples / (samples + samples left); iterations when the log shows no "
                       "samples"});
    add_count(figures, "iterations_left", "iterations left", left.iterations,
              "until --train-samples, --train-iters or --train-tokens is reached; without these "
              "flags, until the total in the log; with the batch sizes of the ramp");
    if (left.samples) {
        add_count(figures, "samples_left", "samples left", *left.samples,
                  "iterations left x batch size: of --rampup-batch-size, else of the ramp in the "
                  "log, else the current batch size");
    }
}

void add_finish(Figures& figures, const char* key, const char* label, double seconds) {
    if (seconds > longest_left_s) return;
    figures.push_back({key, label, Unit::plain, iso_time(static_cast<i64>(unix_time_s() + seconds)),
                       "now + the previous figure"});
}

// Returns the value of --max-age in seconds. `text` is a time, "auto", or a multiple such as "5x"
// of the time between two lines.
double max_age_s(const std::string& text, double between_lines_s) {
    constexpr double usual = 10;
    if (text == "auto") return usual * between_lines_s;
    const bool begins_with_digit = !text.empty() && text.front() >= '0' && text.front() <= '9';
    if (!begins_with_digit) {
        usage_error("--max-age",
                    "expected a time such as 10m, a multiple of the time between two lines such as "
                    "5x, or auto, got '{}'",
                    text);
    }
    if (!text.ends_with('x')) return parse_duration("--max-age", text);
    const double times = parse_number("--max-age", text.substr(0, text.size() - 1));
    check_above("--max-age", times, 0);
    return times * between_lines_s;
}

// Returns the seconds since the last iteration. When the log has no time stamps, returns the
// seconds since the newest change of its files.
double age_of(const Flags& flags, const metrics::LogSummary& log) {
    if (const auto age = metrics::age_s(log, unix_time_s())) return *age;
    double newest_s = 0;
    for (const std::string& path : flags.logs) {
        if (path == "-")
            run_error("--max-age", "standard input has no time stamps: use a log of --log-json");
        newest_s = std::max(newest_s, io::modified_s(path));
    }
    return std::max(0.0, unix_time_s() - newest_s);
}

// Returns whether the last iteration is older than --max-age. The log of a complete training is
// never too old.
bool is_too_old(const Flags& flags, const metrics::LogSummary& log, const metrics::Left& left) {
    if (!flags.max_age || left.iterations == 0) return false;
    const double age = age_of(flags, log);
    const double max_s = max_age_s(*flags.max_age, metrics::between_lines_s(log));
    if (age <= max_s) return false;
    warn("the last line is {} old, more than {} (--max-age)", human_duration(age),
         human_duration(max_s));
    return true;
}

// Adds the time that the rest of the training takes on another number of nodes.
void add_nodes(Figures& figures, const Flags& flags, const metrics::LogSummary& log,
               const metrics::Left& left) {
    if (!flags.nodes) return;
    const i64 before = flags.log_nodes.value_or(log.n_nodes);
    if (before == 0)
        usage_error("--nodes",
                    "the log does not name its nodes: give their number with --log-nodes");
    const double ratio = as_double(before) / as_double(*flags.nodes);
    const double seconds = metrics::seconds_left(log, left, ratio);
    add_count(figures, "nodes", "nodes of the log", before, "its last start, or --log-nodes");
    add_seconds(figures, "left_with_nodes", "time left with --nodes", seconds,
                "a + b x batch of a replica, proportional to 1 / nodes; if the log has no other "
                "batch sizes: time left x nodes of the log / --nodes");
    if (seconds > 0) add_finish(figures, "finish_with_nodes", "finish with --nodes", seconds);
    if (!flags.hours_per_day) return;
    add_seconds(figures, "calendar_with_nodes", "calendar time with --nodes",
                seconds * 24 / *flags.hours_per_day, "x 24 / --hours-per-day");
}

void add_left(Figures& figures, const Flags& flags, const metrics::LogSummary& log, double left_s) {
    add_seconds(figures, "left", "time left", left_s,
                "iterations left x the time of an iteration; at other batch sizes the time follows "
                "the line a + b x batch, fitted to the iterations of the log (a pipeline of p "
                "stages takes m + p - 1 times "
                "the time of a micro-batch, arXiv 2104.04473, section 2.2.1)");
    if (left_s <= 0) return;
    add_finish(figures, "finish", "finish", left_s);
    if (const auto share = metrics::availability(log); share && *share > 0) {
        add_seconds(
            figures, "left_with_stops", "time left with stops", left_s / *share,
            "time left / share computing, if stops take the same share of time as in this log");
        add_finish(figures, "finish_with_stops", "finish with stops", left_s / *share);
    }
    if (!flags.hours_per_day) return;
    const double calendar = left_s * 24 / *flags.hours_per_day;
    add_seconds(figures, "calendar", "calendar time", calendar, "time left x 24 / --hours-per-day");
    add_finish(figures, "finish_calendar", "finish by calendar", calendar);
}

metrics::LogSettings settings_of(const Flags& flags) {
    return {.window = flags.window, .least_gap_s = flags.gap.seconds};
}

// Returns the name that messages use for the logs.
std::string name_of(const std::vector<std::string>& logs) {
    return logs.size() == 1 ? io::input_name(logs[0]) : "the logs";
}

// Reads the logs. `observe`: LogReader::observe().
metrics::LogSummary read(const std::vector<std::string>& logs, const metrics::LogSettings& settings,
                         metrics::LogReader::Observer observer = {}) {
    for (const std::string& path : logs) {
        if (path != "-" && !io::exists(path)) usage_error(path, "does not exist: give a log");
    }
    metrics::LogReader reader(settings);
    reader.observe(std::move(observer));
    if (logs.size() > 1) reader.skip_overlaps();
    for (const metrics::LogHead& head : metrics::in_order(logs)) {
        const std::unique_ptr<io::InputStream> stream = io::open_stream(head.path);
        reader.begin_log(head.first);
        io::for_each_line(*stream, [&reader](std::string_view line) { reader.add(line); });
    }
    reader.finish();
    metrics::LogSummary log = reader.summary();
    const std::string name = name_of(logs);
    if (log.empty()) {
        run_error(name,
                  "expected lines of iterations, got none in {} lines{}: a log of lm-train, "
                  "Megatron-LM or Megatron-DeepSpeed has \" iteration N/ TOTAL | ... | elapsed "
                  "time per iteration\", a file of --log-json has \"kind\":\"step\"",
                  log.lines.lines,
                  log.lines.invalid > 0
                      ? fmt::format(" ({} are truncated or mixed)", log.lines.invalid)
                      : "");
    }
    if (log.lines.invalid > 0) {
        warn("{}: number of skipped lines of iterations, truncated or mixed with other output: {}",
             name, log.lines.invalid);
    }
    return log;
}

void check(const Flags& flags) {
    check_at_least("--window", flags.window, 1);
    check_above_to("--hours-per-day", flags.hours_per_day, 0, 24);
    if (!!flags.max_age) max_age_s(*flags.max_age, 1);
    check_at_least("--nodes", flags.nodes, 1);
    check_at_least("--log-nodes", flags.log_nodes, 1);
    if (flags.log_nodes && !flags.nodes) usage_error("--log-nodes", "needs --nodes");
    check(flags.picture, flags.output);
    if (flags.picture.path.empty() && (!flags.overlay.empty() || !flags.plot_over.empty()))
        usage_error("--plot", "is missing: --overlay and --plot-over are options of the picture");
    if (!flags.follow) return;
    if (!flags.picture.path.empty()) usage_error("--follow", "cannot draw a picture: omit --plot");
    check_above("--interval", flags.interval.seconds, 0);
    if (flags.output.json) usage_error("--follow", "prints text only: omit --json");
    for (const std::string& path : flags.logs) {
        for (const std::string_view ending : {".gz", ".xz", ".zst", ".bz2"}) {
            if (path.ends_with(ending))
                usage_error("--follow", "{} is compressed: give an uncompressed log", path);
        }
        if (path == "-") usage_error("--follow", "needs files, not standard input");
    }
}

// Returns the length of the training that the flags state.
metrics::RunLength length_of(const config::TrainFlags& flags) {
    const config::ScheduleFlags& schedule = flags.schedule;
    if (!schedule.rampup.empty() && !schedule.global_batch) {
        usage_error("--rampup-batch-size", "needs --global-batch-size");
    }
    metrics::RunLength length{.train_samples = schedule.train_samples,
                              .train_iters = schedule.train_iters,
                              .train_tokens = schedule.train_tokens};
    const std::optional<i64> seq_length = config::seq_length_of(flags.model);
    if (schedule.global_batch || !schedule.batch_steps.empty()) {
        length.ramp = config::batch_ramp(schedule, seq_length.value_or(0));
    }
    if (schedule.train_tokens) length.seq_length = seq_length;
    return length;
}

// Prints all figures of the log.
void print_all(const Flags& flags, const metrics::LogSummary& log, const metrics::Left& left) {
    Figures figures;
    add_done(figures, *log.last, left);
    add_rates(figures, log.rates.recent(), "",
              "mean of the last --window lines with the current batch size, without the first line "
              "of a run");
    add_left(figures, flags, log, seconds_left(log, left));
    add_nodes(figures, flags, log, left);
    Printout printout;
    printout.figures("eta", std::move(figures));
    Figures average;
    add_rates(average, log.rates.sums(), "average ", "mean of all iterations of the log");
    printout.figures("average", std::move(average));
    add_log(printout, log);
    add_time_use(printout, log);
    constexpr size_t max_shown = 20;
    const std::string& energy = flags.train.logging.codecarbon_dir;
    if (!energy.empty()) add_energy(printout, energy, log.rates.sums());
    add_stops(printout, log, flags.output.json ? log.stops.newest.size() : max_shown);
    printout.print(flags.output);
}

// Returns the progress in one line: "iteration 120 of 1000, 0.512 s, 7 min 31 s left, ...".
std::string one_line(const metrics::LogSummary& log, const metrics::Left& left) {
    const double left_s = seconds_left(log, left);
    const metrics::LoggedIteration& last = *log.last;
    std::string line = fmt::format(
        "{} iteration {} of {}, {:.3g} s an iteration, {} left, finish {}",
        iso_time(static_cast<i64>(unix_time_s())), last.iteration, last.iteration + left.iterations,
        log.rates.recent().mean_step_s(), human_duration(left_s),
        iso_time(static_cast<i64>(unix_time_s() + std::min(left_s, longest_left_s))));
    if (const auto age = metrics::age_s(log, unix_time_s())) {
        line += fmt::format(", last line {} old", human_duration(*age));
    }
    return line;
}

int follow(const Flags& flags) {
    const auto left_of = [&flags](const metrics::LogSummary& log) {
        return remaining_of(log, length_of(flags.train), name_of(flags.logs));
    };
    metrics::LogReader reader(settings_of(flags));
    const FollowOutput output{
        .print_all = [&](const metrics::LogSummary& now) { print_all(flags, now, left_of(now)); },
        .one_line = [&](const metrics::LogSummary& now) { return one_line(now, left_of(now)); }};
    return follow_logs(flags.logs, reader, flags.interval.seconds, output);
}

// Reads the logs of the run and those of --overlay, and draws all of them in one picture. Returns
// the summary of the run.
metrics::LogSummary plot_logs(const Flags& flags) {
    std::vector<RunCurves> runs;
    const auto read_run = [&runs](const std::vector<std::string>& logs,
                                  const metrics::LogSettings& settings) {
        RunCurves& curves = runs.emplace_back(name_of(logs));
        return read(logs, settings,
                    [&curves](const metrics::LoggedIteration& line, i64 before, bool first) {
                        curves.add(line, before, first);
                    });
    };
    metrics::LogSummary log = read_run(flags.logs, settings_of(flags));
    for (const std::string& path : flags.overlay) read_run({path}, {});
    draw(flags.picture, eta_picture(runs, flags.plot_over));
    return log;
}

int run_eta(Flags flags) {
    if (flags.why) return print_cause(flags.logs, flags.output);
    flags.train = resolve_flags(flags.train);
    check(flags);
    if (flags.follow) return follow(flags);
    const bool plots = !flags.picture.path.empty();
    const metrics::LogSummary log = plots ? plot_logs(flags) : read(flags.logs, settings_of(flags));
    if (plots && flags.picture.replaces_figures()) return 0;
    note_assumptions(log, flags.gap.seconds);
    const metrics::Left left = remaining_of(log, length_of(flags.train), name_of(flags.logs));
    print_all(flags, log, left);
    return static_cast<int>(is_too_old(flags, log, left) ? Exit::answer_is_no : Exit::done);
}

}  // namespace

void add_eta_verb(cli::Options& program) {
    const auto flags = std::make_shared<Flags>();
    cli::Options& options =
        program.verb("eta", "print the progress and the end of a training, from its log",
                     [flags] { return run_eta(*flags); });
    options.examples({"lm-estimate eta train.log --hours-per-day 20",
                      "lm-estimate eta --why train.log",
                      "lm-estimate eta --follow --interval 1s train.log"});
    options.positionals("LOG", &flags->logs,
                        "logs in any order, compressed or not; -: standard input");
    options.group("Time");
    options.value("--hours-per-day", &flags->hours_per_day, "H",
                  "hours of a day in which the machine is available");
    options.value("--window", &flags->window, "N",
                  "number of logged lines over which the rate is averaged");
    options.value("--gap", &flags->gap, "TIME",
                  "list a pause between two lines of a run as a stop if it is at least TIME");
    options.value(
        "--max-age", &flags->max_age, "TIME",
        "exit with 1 when the last line is older than TIME, as for a stuck training; 5x: five "
        "times the time between two lines; auto: 10x");
    options.value("--nodes", &flags->nodes, "N", "also print the time left on N nodes");
    options.value("--log-nodes", &flags->log_nodes, "N",
                  "number of nodes in the log, for --nodes; default: from the log");
    options.flag("--why", &flags->why,
                 "print the line that states why the job of these logs ended, instead of the "
                 "progress; exit with 1 when no line states it");
    options.flag(
        "--follow", &flags->follow,
        "wait for more lines and for logs that do not exist yet, until a line states that "
        "the run has ended; a terminal is redrawn, a pipe gets a line each --interval; exit "
        "with 1 unless the training is finished or its state is saved");
    options.value("--interval", &flags->interval, "TIME", "time between two reads of --follow");
    add_run_options(
        options, flags->train,
        {"--train-samples", "--train-iters", "--train-tokens", "--global-batch-size",
         "--rampup-batch-size", "--seq-length", "--deepspeed_config", "--codecarbon-dir"});
    add_picture_options(options, flags->picture,
                        "loss, gradient norm, learning rate and samples per second");
    options.choice(
        "--plot-over", &flags->plot_over, {"iterations", "samples", "tokens"},
        "x axis of --plot; default: iterations; with --overlay, tokens if all logs have them");
    options.values_added("--overlay", &flags->overlay, "LOG",
                         "logs of other runs, drawn in the picture of LOG, each in its color");
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
