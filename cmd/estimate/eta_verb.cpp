// SPDX-License-Identifier: Apache-2.0
// lm-estimate eta: the progress, speed and end of a training, from its log.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bounds.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "cli/terminal.hpp"
#include "config/schedule_flags.hpp"
#include "eta_parts.hpp"
#include "figures.hpp"
#include "io/file.hpp"
#include "io/inputs.hpp"
#include "io/lines.hpp"
#include "metrics/log_files.hpp"
#include "metrics/log_summary.hpp"
#include "metrics/remaining.hpp"
#include "picture.hpp"
#include "plot/axis.hpp"
#include "plot/line_figure.hpp"
#include "plot/sparkline.hpp"
#include "run_flags.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

constexpr std::array titles = {"Loss", "Gradient norm", "Learning rate", "Samples per second"};
constexpr size_t throughput = 3;
constexpr int title_columns = 18;  // the longest title

float value_of(const std::optional<double>& value) {
    return value ? static_cast<float>(*value) : std::numeric_limits<float>::quiet_NaN();
}

// Returns the samples per second; nullopt when the line does not state the batch.
std::optional<double> throughput_of(const metrics::LoggedIteration& line) {
    if (!line.global_batch || !(line.step_s > 0)) return std::nullopt;
    return as_double(*line.global_batch) / line.step_s;
}

// Returns a line of text for each panel: its curve as characters, and the last value of the curve.
// The curve has the columns that the terminal's width leaves.
std::string text_of(const plot::LineFigure& figure) {
    const int width = cli::terminal_width(STDOUT_FILENO, 120);
    std::string text;
    for (const plot::Panel& panel : figure.panels) {
        for (const plot::Curve& curve : panel.curves) {
            if (curve.discarded || curve.points.empty()) continue;
            plot::DataExtent extent;
            for (const plot::Point& point : curve.points) extent.add(point.y);
            if (extent.empty()) continue;
            const std::string run =
                figure.runs.size() > 1 ? "  " + figure.runs[curve.run].name : "";
            const std::string values =
                fmt::format("  {:.4g} to {:.4g}, last {:.4g}{}", extent.low(), extent.high(),
                            curve.points.back().y, run);
            const int columns =
                std::clamp(width - title_columns - 1 - static_cast<int>(values.size()), 10, 60);
            text += fmt::format("{:<{}} {}{}\n", panel.title, title_columns,
                                plot::sparkline(curve.points, columns), values);
        }
    }
    return text.empty() ? "no values to draw\n" : text;
}

// The curves of a run, from its logged iterations in the order of the log.
class RunCurves {
  public:
    static constexpr size_t n_panels = titles.size();

    explicit RunCurves(std::string name) : name_(std::move(name)) {}
    // Adds the iterations after `before` that `line` reports. If `first_of_run` is true, the
    // program or the training was restarted after iteration `before`, so the earlier lines of
    // iterations after `before` are invalid.
    void add(const metrics::LoggedIteration& line, i64 before, bool first_of_run) {
        const bool restarted = first_of_run && !entries_.empty();
        if (restarted && entries_.back().iteration > before) {
            const auto first = std::ranges::find_if(
                entries_, [before](const Entry& entry) { return entry.iteration > before; });
            discarded_.emplace_back(first, entries_.end());
            entries_.erase(first, entries_.end());
        }
        has_samples_ &= line.consumed_samples.has_value();
        has_tokens_ &= line.consumed_tokens.has_value();
        const Entry entry = {
            .iteration = line.iteration,
            .samples = as_double(line.consumed_samples.value_or(0)),
            .tokens = as_double(line.consumed_tokens.value_or(0)),
            .values = {value_of(line.loss), value_of(line.grad_norm), value_of(line.learning_rate),
                       value_of(throughput_of(line))},
            .skipped = line.skipped > 0 || line.nan > 0};
        if (restarted) restarts_.push_back(place_of(before, entry));
        entries_.push_back(entry);
    }
    bool has_samples() const { return has_samples_; }
    bool has_tokens() const { return has_tokens_; }

  private:
    friend Picture eta_picture(const std::vector<RunCurves>& runs, const std::string& axis);
    // A logged iteration. Values that its line does not state are NaN.
    struct Entry {
        i64 iteration = 0;
        double samples = 0, tokens = 0;
        float values[n_panels] = {};  // lm loss, gradient norm, learning rate, throughput
        bool skipped = false;         // some iterations were skipped or had NaN
    };
    double x_of(const Entry& entry, const std::string& axis) const {
        if (axis == "samples") return entry.samples;
        return axis == "tokens" ? entry.tokens : as_double(entry.iteration);
    }
    // Returns the place of `iteration`, which is before the iteration of `entry`, on a straight
    // line between the last line and `entry`.
    Entry place_of(i64 iteration, const Entry& entry) const {
        const Entry from = entries_.empty() ? Entry{} : entries_.back();
        const i64 distance = std::max<i64>(1, entry.iteration - from.iteration);
        const double share =
            std::clamp(as_double(iteration - from.iteration) / as_double(distance), 0.0, 1.0);
        return {.iteration = iteration,
                .samples = std::lerp(from.samples, entry.samples, share),
                .tokens = std::lerp(from.tokens, entry.tokens, share)};
    }
    void add_to(plot::LineFigure& figure, size_t run, const std::string& axis) const {
        plot::RunMarks marks{.name = name_, .restarts = {}, .skipped = {}};
        for (const Entry& entry : restarts_) marks.restarts.push_back(x_of(entry, axis));
        for (const Entry& entry : entries_) {
            if (entry.skipped) marks.skipped.push_back(x_of(entry, axis));
        }
        figure.runs.push_back(std::move(marks));
        const auto add_curve = [&](const std::vector<Entry>& entries, bool discarded) {
            for (size_t panel = 0; panel < n_panels; ++panel) {
                plot::Curve curve{.run = run, .discarded = discarded, .points = {}};
                curve.points.reserve(entries.size());
                for (const Entry& entry : entries) {
                    curve.points.push_back({x_of(entry, axis), double{entry.values[panel]}});
                }
                figure.panels[panel].curves.push_back(std::move(curve));
            }
        };
        for (const std::vector<Entry>& entries : discarded_) add_curve(entries, true);
        add_curve(entries_, false);
    }

    std::string name_;
    std::vector<Entry> entries_;
    std::vector<Entry> restarts_;  // the places at which the training resumed, without values
    std::vector<std::vector<Entry>> discarded_;  // the lines that each restart made invalid
    bool has_samples_ = true, has_tokens_ = true;
};

// Returns the picture. Its x axis is `axis`: "iterations", "samples" or "tokens". If `axis` is
// empty, the x axis shows tokens for several runs whose logs all have tokens, else iterations.
// Throws Error(usage) when a log does not have the numbers of the axis.
Picture eta_picture(const std::vector<RunCurves>& runs, const std::string& axis) {
    const bool tokens = std::ranges::all_of(runs, &RunCurves::has_tokens);
    const std::string x = !axis.empty()               ? axis
                          : runs.size() > 1 && tokens ? "tokens"
                                                      : "iterations";
    for (const RunCurves& run : runs) {
        const bool has = x == "tokens" ? run.has_tokens() : x != "samples" || run.has_samples();
        if (!has) usage_error("--plot-over", "{}: the log does not show {}", run.name_, x);
    }
    plot::LineFigure figure{.title = "Training", .x_label = x, .runs = {}, .panels = {}};
    figure.x_label[0] = static_cast<char>(figure.x_label[0] - 'a' + 'A');
    for (size_t panel = 0; panel < RunCurves::n_panels; ++panel) {
        figure.panels.push_back({.title = titles[panel],
                                 .may_be_log = panel == 1,
                                 .from_zero = panel == throughput,
                                 .curves = {}});
    }
    for (size_t run = 0; run < runs.size(); ++run) runs[run].add_to(figure, run, x);
    return {svg_of(figure), text_of(figure)};
}

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
