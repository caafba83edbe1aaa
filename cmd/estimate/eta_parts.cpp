// SPDX-License-Identifier: Apache-2.0
#include "eta_parts.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"
#include "io/inputs.hpp"
#include "io/lines.hpp"
#include "metrics/emissions.hpp"
#include "metrics/log_cause.hpp"
#include "metrics/log_tail.hpp"
#include "metrics/remaining.hpp"

namespace lm::estimate {

void note_assumptions(const metrics::LogSummary& log, double gap_s) {
    if (log.lines.overlapping > 0)
        note(
            "the logs overlap: number of lines that an earlier log also contains: {}: each line is "
            "counted once",
            log.lines.overlapping);
    if (log.stops.n_unseen_starts > 0) {
        note(
            "number of logs that begin after a pause of more than {1} (--gap) and do not state "
            "when their program started: {0}: the pause counts as waiting for a job, except for "
            "the mean time of the restarts that the logs state",
            log.stops.n_unseen_starts, human_duration(gap_s));
    }
    if (log.stops.n_unclear_logs > 0) {
        note(
            "number of logs that continue the iterations of the previous log without time stamps: "
            "{}: they do not show whether the training was restarted, so no restart is counted",
            log.stops.n_unclear_logs);
    }
}

void add_log(Printout& printout, const metrics::LogSummary& log) {
    Figures figures;
    if (const auto age = metrics::age_s(log, unix_time_s())) {
        add_seconds(figures, "age", "age of the last line", *age,
                    "now - its time stamp; the finish assumes that the training still runs");
    }
    add_count(figures, "lines", "lines", log.lines.lines);
    add_count(figures, "logged", "of iterations", log.lines.logged);
    add_count(figures, "damaged", "damaged", log.lines.invalid,
              "lines of iterations that are truncated or have other output in them, skipped");
    add_count(figures, "duplicates", "duplicates", log.lines.repeated,
              "the same iteration logged by another rank, skipped");
    add_count(figures, "overlapping", "in several logs", log.lines.overlapping,
              "lines of iterations and events that an earlier log also contains; each line is "
              "counted once");
    add_count(
        figures, "computed", "iterations computed", log.rates.sums().iterations,
        "including iterations between two log lines or between the last line and the stop that "
        "the log states, and repeated iterations");
    add_seconds(figures, "computing", "time computing", log.rates.sums().step_s,
                "the sum of the elapsed times per iteration");
    const metrics::TimeUse& use = log.time_use;
    add_count(figures, "skipped", "iterations skipped", use.skipped,
              "without an optimizer step, and not computed again");
    add_count(figures, "nan", "iterations with NaN", use.nan,
              "with a loss or gradient that is not finite, and not computed again");
    add_count(figures, "restarts", "restarts", log.stops.n_restarts,
              "a program starts (messages of Megatron and lm-train); in a log without them, the "
              "iteration decreases, or a log begins after a pause of --gap");
    add_count(figures, "repeated", "repeated iterations", log.stops.repeated_iterations,
              "computed again after a restart or a rollback");
    add_seconds(figures, "repeated_s", "time repeated", log.stops.repeated_s,
                "time of their first computation, which was discarded");
    if (log.wall_s) {
        add_seconds(
            figures, "wall", "wall time", *log.wall_s,
            "from the first time stamp to the last; a line without a stamp adds its step times");
        add_seconds(figures, "missing", "time missing", log.missing_s,
                    "wall time without computed iterations");
        if (const auto share = metrics::availability(log)) {
            figures.push_back({"available", "share computing", Unit::share, *share,
                               "1 - (missing + repeated) / wall time"});
        }
    }
    printout.figures("log", std::move(figures));
}

void add_time_use(Printout& printout, const metrics::LogSummary& log) {
    const metrics::TimeUse& use = log.time_use;
    if (!(use.total_s() > 0)) return;
    Figures figures;
    add_seconds(figures, "useful", "useful steps", use.useful_s,
                "the elapsed times of all iterations, minus the next three figures");
    add_seconds(figures, "repeated", "steps computed twice", use.repeated_s,
                "discarded by a restart or a rollback");
    add_seconds(figures, "skipped", "skipped steps", use.skipped_s,
                "number of skipped iterations x time of an iteration");
    add_seconds(figures, "nan", "steps with NaN", use.nan_s,
                "number of nan iterations x time of an iteration");
    if (log.wall_s) {
        add_seconds(figures, "evaluation", "evaluations", use.evaluation_s,
                    "elapsed_s of --log-json; else the time until the line of an evaluation");
        add_seconds(figures, "saving", "saves", use.saving_s, "the time for which the loop waited");
        add_seconds(figures, "restarting", "starts", use.restarting_s,
                    "from each start of a program, the first one included, to its first iteration");
        add_seconds(figures, "waiting", "waiting for a job", use.waiting_s,
                    "from the last line of a program to the start of the next one");
        add_seconds(figures, "other", "other", use.other_s,
                    "gaps between two lines of a running program");
    }
    add_seconds(figures, "total", "in all", use.total_s(), "the sum");
    printout.sum("time_use", std::move(figures));
}

void add_stops(Printout& printout, const metrics::LogSummary& log, size_t most) {
    const std::deque<metrics::LogStop>& stops = log.stops.newest;
    if (stops.empty()) return;
    const bool timed = log.wall_s.has_value();
    std::vector<Column> columns = {
        {"last_iteration", "last logged", Unit::count, "the last iteration logged before the stop"},
        {"resumed_after", "resumed after", Unit::count,
         "iteration of the loaded checkpoint; if the log does not state it: the first logged "
         "iteration minus the interval between lines"},
        {"repeated", "repeated", Unit::count,
         "last logged, or stated by the stop, - resumed after"},
        {"repeated_s", "time repeated", Unit::seconds, ""},
        {"restarted", "restart", Unit::plain, "no: time is missing within a run"}};
    if (timed) {
        columns.push_back(
            {"missing", "time missing", Unit::seconds,
             "time without an iteration; within a run, only if it is longer than --gap"});
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
    if (static_cast<i64>(rows.size()) < log.stops.n_stops) {
        note("the last {1} of {0} stops are listed", log.stops.n_stops, rows.size());
    }
    printout.table("stop", std::move(columns), std::move(rows));
}

void add_energy(Printout& printout, const std::string& directory, const metrics::LogSums& sums) {
    const metrics::EmissionsSum sum = metrics::sum_emissions(directory);
    if (sum.n_files == 0)
        run_error(directory, "has no file emissions*.csv: give the output directory of CodeCarbon");
    Figures figures;
    add_count(figures, "files", "files", sum.n_files, "emissions*.csv of --codecarbon-dir");
    add_count(figures, "runs", "runs", sum.n_runs, "one for each host and each start");
    add_seconds(figures, "host_time", "time of all hosts", sum.duration_s,
                "column duration, sum over the last row of each run");
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

int print_cause(const std::vector<std::string>& logs, const OutputFlags& output) {
    std::optional<metrics::Cause> found;
    std::string name;
    i64 n_lines = 0;
    for (const std::string& path : logs) {
        const std::unique_ptr<io::InputStream> stream = io::open_stream(path);
        metrics::LogCause log;
        io::for_each_line(*stream, [&log](std::string_view line) { log.add(line); });
        n_lines += log.n_lines();
        const std::optional<metrics::Cause>& root = log.root() ? log.root() : log.hint();
        if (!root || (found && found->rule->strength >= root->rule->strength)) continue;
        found = root;
        name = io::input_name(path);
    }
    if (!found) {
        warn(
            "no line of the logs states why the job ended (number of lines: {}), so the job is "
            "still running or was killed: add the logs of Slurm or of the launcher to the "
            "arguments",
            n_lines);
        return static_cast<int>(Exit::answer_is_no);
    }
    const bool known = found->rule->kind != metrics::unknown_cause;
    if (!known)
        warn(
            "no line states why the job ended: the printed line is the last one that reports a "
            "failure");
    std::vector<Figure> figures;
    figures.push_back({"cause", "cause", Unit::plain, std::string(found->rule->kind),
                       "message of " + std::string(found->rule->source)});
    if (found->rank) {
        figures.push_back({"rank", "rank", Unit::count, *found->rank,
                           "the first rank that a message of an error names"});
    }
    if (!found->host.empty()) {
        figures.push_back({"host", "host", Unit::plain, found->host,
                           "the host of this rank, or the one that failed"});
    }
    if (found->signal) {
        figures.push_back(
            {"signal", "signal", Unit::count, *found->signal, "number of the signal"});
    }
    if (output.json) {
        figures.push_back({"log", "log", Unit::plain, name, ""});
        figures.push_back({"line_number", "line", Unit::count, found->line_number, ""});
        figures.push_back({"line", "message", Unit::plain, found->line, ""});
    } else {
        cli::write_text("{}:{}: {}\n", name, found->line_number, found->line);
    }
    Printout printout;
    printout.figures("why", std::move(figures));
    printout.print(output);
    return static_cast<int>(known ? Exit::done : Exit::answer_is_no);
}

namespace {

// A log that is followed. `tail` reads its new lines, `cause` finds the end of the run in them.
struct Followed {
    std::string path;
    metrics::LogTail tail;
    metrics::LogCause cause;
};

// Passes the new lines of all logs to `reader`. Returns their number.
i64 read_new_lines(std::vector<Followed>& logs, metrics::LogReader& reader) {
    i64 n_lines = 0;
    for (Followed& log : logs) {
        n_lines += log.tail.poll([&](std::string_view line) {
            reader.add(line);
            log.cause.add(line);
        });
    }
    return n_lines;
}

// Returns the log whose message states the end of the run most clearly; nullptr when no log states
// an end.
const Followed* ended_log(const std::vector<Followed>& logs) {
    const Followed* ended = nullptr;
    for (const Followed& log : logs) {
        if (!log.cause.root()) continue;
        if (ended && ended->cause.root()->rule->strength >= log.cause.root()->rule->strength) {
            continue;
        }
        ended = &log;
    }
    return ended;
}

void show(const metrics::LogSummary& now, const FollowOutput& output) {
    if (::isatty(STDOUT_FILENO) == 0) {
        cli::write_stdout(now.empty() ? "no iteration yet\n" : output.one_line(now) + "\n");
        return;
    }
    constexpr const char* clear_screen = "\033[H\033[2J";
    cli::write_stdout(clear_screen);
    if (now.empty()) {
        cli::write_stdout("no iteration yet\n");
    } else {
        output.print_all(now);
    }
}

}  // namespace

int follow_logs(const std::vector<std::string>& logs, metrics::LogReader& reader, double interval_s,
                const FollowOutput& output) {
    std::vector<Followed> followed;
    for (const std::string& path : logs) {
        followed.push_back({path, metrics::LogTail(path), metrics::LogCause()});
    }
    while (true) {
        const i64 n_lines = read_new_lines(followed, reader);
        show(reader.summary(), output);
        const Followed* const ended = ended_log(followed);
        if (ended != nullptr && n_lines == 0) {
            const metrics::Cause& cause = *ended->cause.root();
            cli::write_text("{}: {}:{}: {}\n", cause.rule->kind, ended->path, cause.line_number,
                            cause.line);
            const bool planned = cause.rule->kind == "finished" || cause.rule->kind == "stopped";
            return static_cast<int>(planned ? Exit::done : Exit::answer_is_no);
        }
        std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
    }
}

}  // namespace lm::estimate
