// SPDX-License-Identifier: Apache-2.0
// lm-estimate eta: the progress, speed and end of a training, from its log.
#include <algorithm>
#include <memory>
#include <optional>

#include "base/as_double.hpp"
#include "base/bounds.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cause.hpp"
#include "config/schedule_flags.hpp"
#include "figures.hpp"
#include "follow.hpp"
#include "io/file.hpp"
#include "io/inputs.hpp"
#include "io/lines.hpp"
#include "metrics/emissions.hpp"
#include "metrics/log_order.hpp"
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
    std::string max_age;  // "auto", a time, or empty
    bool why = false;
    bool follow = false;
    cli::Duration interval{10};
    OutputFlags output;
};

using Figures = std::vector<Figure>;

constexpr double longest_left_s = 1e11;  // thousands of years: not a useful date

void add_count(Figures& figures, const char* key, const char* label, i64 value,
               const char* formula = "") {
    figures.push_back({key, label, Unit::count, value, formula});
}

void add_seconds(Figures& figures, const char* key, const char* label, double value,
                 const char* formula) {
    figures.push_back({key, label, Unit::seconds, value, formula});
}

// Adds samples, tokens and operations per second of `sums`. Omits a rate that the log does not
// show.
void add_rates(Figures& figures, const metrics::LogSums& sums, const std::string& which,
               const char* formula) {
    const auto add = [&](const char* key, const char* label, double value, const char* how) {
        if (value > 0) figures.push_back({key, which + label, Unit::plain, value, how});
    };
    add("step_s", "seconds per iteration", sums.mean_step_s(), formula);
    if (!(sums.step_s > 0)) return;
    add("samples_per_s", "samples per second", sums.samples / sums.step_s,
        "samples of the same iterations / their time");
    add("tokens_per_s", "tokens per second", sums.tokens / sums.step_s,
        "tokens of the same iterations / their time");
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
        add_count(
            figures, "samples_left", "samples left", *left.samples,
            "iterations left x batch size: of --rampup-batch-size, else of the ramp in the log, "
            "else the current one");
    }
}

void add_finish(Figures& figures, const char* key, const char* label, double seconds) {
    if (seconds > longest_left_s) return;
    figures.push_back({key, label, Unit::plain, iso_time(static_cast<i64>(unix_time_s() + seconds)),
                       "now + that time"});
}

// Returns whether the last iteration is older than --max-age. The log of a complete training is
// never too old.
bool is_too_old(const Flags& flags, const metrics::LogSummary& log, const metrics::Left& left) {
    if (flags.max_age.empty() || left.iterations == 0) return false;
    const std::optional<double> age = metrics::age_s(log, unix_time_s());
    if (!age) {
        run_error("--max-age", "the log has no time stamps: use a log of --log-json");
    }
    const double max_s = flags.max_age == "auto" ? metrics::longest_silence_s(log)
                                                 : parse_duration("--max-age", flags.max_age);
    if (*age <= max_s) return false;
    warn("the last line is {} old, more than {} (--max-age)", human_duration(*age),
         human_duration(max_s));
    return true;
}

void add_left(Figures& figures, const Flags& flags, const metrics::LogSummary& log, double left_s) {
    add_seconds(figures, "left", "time left", left_s,
                "iterations left x the time of one; other batch sizes by the line a + b x batch "
                "through the iterations of the log (a pipeline of p stages takes m + p - 1 times "
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

void add_log(Printout& printout, const metrics::LogSummary& log) {
    Figures figures;
    if (const auto age = metrics::age_s(log, unix_time_s())) {
        add_seconds(figures, "age", "age of the last line", *age,
                    "now - its time stamp; the finish assumes that the training still runs");
    }
    add_count(figures, "lines", "lines", log.n_lines());
    add_count(figures, "logged", "of iterations", log.n_logged());
    add_count(figures, "damaged", "damaged", log.n_invalid(),
              "lines of iterations that are truncated or have other output in them, skipped");
    add_count(figures, "duplicates", "duplicates", log.n_repeated(),
              "the same iteration logged by another rank, skipped");
    add_count(figures, "computed", "iterations computed", log.sums().iterations,
              "including those between logged ones, and repeated ones");
    add_seconds(figures, "computing", "time computing", log.sums().step_s,
                "the sum of the elapsed times per iteration");
    add_count(figures, "restarts", "restarts", log.n_restarts(),
              "a program starts (messages of Megatron and lm-train); in a log without them, the "
              "iteration decreases");
    add_count(figures, "repeated", "repeated iterations", log.repeated_iterations(),
              "computed again after a restart");
    add_seconds(figures, "repeated_s", "time repeated", log.repeated_s(),
                "repeated iterations x the time of the previous one");
    if (log.wall_s()) {
        add_seconds(
            figures, "wall", "wall time", *log.wall_s(),
            "from the first time stamp to the last; a line without one adds its step times");
        add_seconds(figures, "missing", "time missing", log.missing_s(),
                    "wall time without computed iterations");
        if (const auto share = metrics::availability(log)) {
            figures.push_back({"available", "share computing", Unit::share, *share,
                               "1 - (missing + repeated) / wall time"});
        }
    }
    printout.figures("log", std::move(figures));
}

void add_stops(Printout& printout, const metrics::LogSummary& log, size_t most) {
    const std::deque<metrics::LogStop>& stops = log.stops();
    if (stops.empty()) return;
    const bool timed = log.wall_s().has_value();
    std::vector<Column> columns = {
        {"last_iteration", "stopped after", Unit::count,
         "the last iteration logged before the stop"},
        {"resumed_after", "resumed after", Unit::count,
         "iteration of the checkpoint that the log names; else the first logged iteration minus "
         "the interval between lines"},
        {"repeated", "repeated", Unit::count, "the iterations between both"},
        {"repeated_s", "time repeated", Unit::seconds, ""},
        {"restarted", "restart", Unit::plain, "no: time is missing within a run"}};
    if (timed) {
        columns.push_back({"missing", "time missing", Unit::seconds,
                           "without an iteration; within a run when longer than --gap"});
        columns.push_back({"time", "until", Unit::plain, "the next line with an iteration"});
    }
    std::vector<std::vector<Value>> rows;
    for (size_t i = stops.size() - std::min(most, stops.size()); i < stops.size(); ++i) {
        const metrics::LogStop& stop = stops[i];
        std::vector<Value>& row = rows.emplace_back();
        row = {stop.last_iteration, stop.resumed_after, stop.repeated(), stop.repeated_s,
               stop.restarted};
        if (!timed) continue;
        row.emplace_back(stop.missing_s.value_or(0));
        std::string until;
        if (stop.unix_time_s) until = iso_time(static_cast<i64>(*stop.unix_time_s));
        row.emplace_back(std::move(until));
    }
    if (static_cast<i64>(rows.size()) < log.n_stops()) {
        note("the last {1} of {0} stops are listed", log.n_stops(), rows.size());
    }
    printout.table("stop", std::move(columns), std::move(rows));
}

// Adds up the energy files of all hosts and starts.
void add_energy(Printout& printout, const std::string& directory, const metrics::LogSums& sums) {
    const metrics::EmissionsSum sum = metrics::sum_emissions(directory);
    if (sum.n_files == 0) run_error(directory, "has no file emissions*.csv");
    Figures figures;
    add_count(figures, "files", "files", sum.n_files, "emissions*.csv of --codecarbon-dir");
    add_count(figures, "runs", "runs", sum.n_runs, "a host in one start");
    add_seconds(figures, "host_time", "time of all hosts", sum.duration_s,
                "column duration, added up; of each run the last row");
    const auto add = [&](const char* key, const char* label, double value, const char* how) {
        figures.push_back({key, label, Unit::plain, value, how});
    };
    add("energy_kwh", "energy (kWh)", sum.energy_kwh, "column energy_consumed, added up");
    add("cpu_kwh", "processors (kWh)", sum.cpu_kwh, "column cpu_energy, added up");
    add("gpu_kwh", "GPUs (kWh)", sum.gpu_kwh, "column gpu_energy, added up");
    add("ram_kwh", "memory (kWh)", sum.ram_kwh, "column ram_energy, added up");
    add("co2_kg", "CO2 (kg)", sum.emissions_kg, "column emissions, added up");
    if (sums.tokens > 0) {
        add("kwh_per_billion_tokens", "kWh for 1e9 tokens", sum.energy_kwh / sums.tokens * 1e9,
            "energy / tokens of all iterations of the log");
    }
    printout.figures("energy", std::move(figures));
}

// Returns the name of the log for messages.
std::string name_of(const std::vector<std::string>& logs) {
    return logs.size() == 1 ? io::input_name(logs[0]) : "the logs";
}

void read(const Flags& flags, metrics::LogSummary& log) {
    for (const std::string& path : metrics::in_time_order(flags.logs)) {
        if (path != "-" && !io::exists(path)) usage_error(path, "does not exist: give a log");
        const std::unique_ptr<io::InputStream> stream = io::open_stream(path);
        io::for_each_line(*stream, [&log](std::string_view line) { log.add(line); });
    }
    log.finish();
    const std::string name = name_of(flags.logs);
    if (log.empty()) {
        run_error(name,
                  "no line of an iteration among {} lines{}: a log of lm-train, Megatron-LM or "
                  "Megatron-DeepSpeed has \" iteration N/ TOTAL | ... | elapsed time per "
                  "iteration\", a file of --log-json has \"kind\":\"step\"",
                  log.n_lines(),
                  log.n_invalid() > 0 ? fmt::format(" ({} are truncated or mixed)", log.n_invalid())
                                      : "");
    }
    if (log.n_invalid() > 0) {
        warn("{}: {} lines of iterations are truncated or mixed with others: skipped", name,
             log.n_invalid());
    }
}

void check(const Flags& flags) {
    check_at_least("--window", flags.window, 1);
    check_above_to("--hours-per-day", flags.hours_per_day, 0, 24);
    if (!flags.max_age.empty() && flags.max_age != "auto") {
        parse_duration("--max-age", flags.max_age);
    }
    if (!flags.follow) return;
    check_above("--interval", flags.interval.seconds, 0);
    if (flags.output.json) usage_error("--follow", "prints text: --json is not possible");
    for (const std::string& path : flags.logs) {
        for (const std::string_view ending : {".gz", ".xz", ".zst", ".bz2"}) {
            if (path.ends_with(ending)) usage_error("--follow", "{} is compressed", path);
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
    add_done(figures, log.last(), left);
    add_rates(figures, log.recent(), "",
              "mean of the last --window lines with the current batch size, without the first line "
              "of a run");
    add_left(figures, flags, log, seconds_left(log, left));
    Printout printout;
    printout.figures("eta", std::move(figures));
    Figures average;
    add_rates(average, log.sums(), "average ", "mean of all iterations of the log");
    printout.figures("average", std::move(average));
    add_log(printout, log);
    constexpr size_t max_shown = 20;
    const std::string& energy = flags.train.logging.codecarbon_dir;
    if (!energy.empty()) add_energy(printout, energy, log.sums());
    add_stops(printout, log, flags.output.json ? log.stops().size() : max_shown);
    printout.print(flags.output);
}

// Returns the progress in one line: "iteration 120 of 1000, 0.512 s, 7 min 31 s left, ...".
std::string one_line(const metrics::LogSummary& log, const metrics::Left& left) {
    const double left_s = seconds_left(log, left);
    const metrics::LoggedIteration& last = log.last();
    std::string line = fmt::format(
        "{} iteration {} of {}, {:.3g} s an iteration, {} left, finish {}",
        iso_time(static_cast<i64>(unix_time_s())), last.iteration, last.iteration + left.iterations,
        log.recent().mean_step_s(), human_duration(left_s),
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
    metrics::LogSummary log({.window = flags.window, .least_gap_s = flags.gap.seconds});
    const FollowOutput output{
        .print_all = [&](const metrics::LogSummary& now) { print_all(flags, now, left_of(now)); },
        .one_line = [&](const metrics::LogSummary& now) { return one_line(now, left_of(now)); }};
    return follow_logs(flags.logs, log, flags.interval.seconds, output);
}

int run_eta(Flags flags) {
    if (flags.why) return print_cause(flags.logs, flags.output);
    flags.train = resolve_flags(flags.train);
    check(flags);
    if (flags.follow) return follow(flags);
    metrics::LogSummary log({.window = flags.window, .least_gap_s = flags.gap.seconds});
    read(flags, log);
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
    options.value("--window", &flags->window, "N", "logged lines of which the rate is the mean");
    options.value("--gap", &flags->gap, "TIME",
                  "shortest missing time between two lines of a run that is listed");
    options.value(
        "--max-age", &flags->max_age, "TIME",
        "exit with 1 when the last line is older than TIME; auto: than ten times the time "
        "between two lines");
    options.flag("--why", &flags->why,
                 "print the line that states why the job of these logs ended, instead of its "
                 "progress; exit with 1 when there is none");
    options.flag(
        "--follow", &flags->follow,
        "wait for more lines and for logs that do not exist yet, until a line states that "
        "the run has ended; a terminal is redrawn, a pipe gets a line each --interval; exit "
        "with 1 unless the training is finished or its state is saved");
    options.value("--interval", &flags->interval, "TIME", "time between two looks of --follow");
    add_run_options(
        options, flags->train,
        {"--train-samples", "--train-iters", "--train-tokens", "--global-batch-size",
         "--rampup-batch-size", "--seq-length", "--deepspeed_config", "--codecarbon-dir"});
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
