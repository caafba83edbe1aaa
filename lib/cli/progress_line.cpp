// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/units.hpp"

namespace lm::cli {
namespace {

constexpr double redraw_s = 1.0 / 6.0;
constexpr double plain_line_s = 60.0;
constexpr std::string_view separator = ", ";  // between fields
constexpr double rate_memory_s = 10.0;        // time constant of the mean rate
// In the first second caches fill, so the rate is not typical. The line shows the remaining time
// only after this time.
constexpr double settling_s = 1.0;

// Returns whether stderr is a terminal that can clear a line.
bool can_redraw() {
    const char* term = std::getenv("TERM");
    return stderr_is_terminal() && term && std::string_view(term) != "dumb";
}
bool in_foreground() {
    const pid_t group = tcgetpgrp(STDERR_FILENO);
    return group < 0 || group == getpgrp();
}

// Returns the number of bytes in one `unit`; 0 when `unit` is not a unit of bytes.
double bytes_of(std::string_view unit) {
    return unit == "MB" ? 1e6 : unit == "MiB" ? 0x1p20 : 0;
}

std::string amount(double done, i64 total, std::string_view unit) {
    const double bytes = bytes_of(unit);
    const auto text = [bytes](double value) {
        return bytes > 0 ? fmt::format("{:.1f}", value / bytes) : fmt::format("{:.0f}", value);
    };
    const std::string of_total = total < 0 ? "" : "/" + text(static_cast<double>(total));
    return fmt::format("{}{} {}", text(done), of_total, unit);
}

std::string rate_text(double rate, std::string_view unit) {
    if (const double bytes = bytes_of(unit); bytes > 0) {
        const double per_s = rate / bytes;
        return fmt::format("{:.{}f} {}/s", per_s, per_s < 999.95 ? 1 : 0, unit);
    }
    return rate < 100 ? fmt::format("{:.1f} {}/s", rate, unit)
                      : fmt::format("{}/s", human_count(rate) + " " + std::string(unit));
}

}  // namespace

struct ProgressLine::State {
    std::mutex mutex;
    std::string what;
    std::string unit;
    i64 total = -1;
    bool quiet = false;
    bool redraws = false;
    double (*clock)() = nullptr;
    double start_s = 0;
    double due_s = 0;    // time of the next line
    double shown_s = 0;  // time of the last update of the rate
    i64 shown_done = 0;  // `done` at shown_s
    // The sums of the amounts and of the durations of all intervals so far. The weight of an
    // interval in both sums decreases by the factor e in every rate_memory_s after the interval.
    // The ratio of the sums is the rate.
    double recent_amount = 0;
    double recent_s = 0;
    i64 done = 0;
    std::string extra;
    bool printed_plain = false;
    bool finished = false;

    void update_rate(double now_s);
    double rate() const { return recent_s > 0 ? recent_amount / recent_s : 0; }  // per second
    std::string line_within(size_t width) const;
    std::string line(bool with_amount) const;
    void show(double now_s);
    void finish();
};

void ProgressLine::State::update_rate(double now_s) {
    const double passed_s = now_s - shown_s;
    if (passed_s <= 0) return;
    const double decay = std::exp(-passed_s / rate_memory_s);
    recent_amount = recent_amount * decay + static_cast<double>(done - shown_done);
    recent_s = recent_s * decay + passed_s;
    shown_s = now_s;
    shown_done = done;
}

// Returns the line with as many fields as fit into `width`. Drops the amount first, because the
// percentage also shows the amount, and then fields at the end.
std::string ProgressLine::State::line_within(size_t width) const {
    std::string text = line(true);
    if (text.size() > width && total > 0) text = line(false);
    if (text.size() <= width) return text;
    const size_t end = text.rfind(separator, width);
    return end == text.npos ? what.substr(0, width) : text.substr(0, end);
}

std::string ProgressLine::State::line(bool with_amount) const {
    std::string text = what + ":";
    if (total > 0) {
        text += fmt::format(" {:3.0f} %", std::floor(100.0 * static_cast<double>(done) /
                                                     static_cast<double>(total)));
    }
    if (with_amount) text += " " + amount(static_cast<double>(done), total, unit);
    text += separator;
    text += rate_text(rate(), unit);
    if (total >= 0 && done < total && rate() > 0 && shown_s - start_s >= settling_s) {
        text += separator;
        text += fmt::format("{} left", human_duration(static_cast<double>(total - done) / rate()));
    }
    if (!extra.empty()) text += std::string(separator) + extra;
    return text;
}

void ProgressLine::State::show(double now_s) {
    update_rate(now_s);
    due_s = now_s + (redraws ? redraw_s : plain_line_s);
    if (!redraws) {
        print_line(line(true));
        printed_plain = true;
    } else if (in_foreground()) {
        // The last column stays empty, because some terminals wrap when it is written.
        const int width = terminal_width(STDERR_FILENO, 80) - 1;
        set_status_line(line_within(static_cast<size_t>(width)));
    }
}

void ProgressLine::State::finish() {
    if (finished) return;
    finished = true;
    if (redraws) set_status_line("");
}

ProgressLine::ProgressLine(std::string_view what, std::string_view unit, i64 total, bool quiet,
                           double (*clock)(), i64 begin)
    : state_(std::make_unique<State>()) {
    state_->what = what;
    state_->unit = unit;
    state_->total = total;
    state_->quiet = quiet;
    state_->clock = clock;
    state_->done = state_->shown_done = begin;
    state_->redraws = !quiet && can_redraw();
    state_->start_s = state_->shown_s = clock();
    state_->due_s = state_->start_s + (state_->redraws ? redraw_s : plain_line_s);
}

ProgressLine::~ProgressLine() {
    state_->finish();
}

void ProgressLine::update(i64 done, std::string_view extra) {
    if (state_->quiet) return;
    const double now_s = state_->clock();
    const std::lock_guard lock(state_->mutex);
    state_->done = done;
    if (state_->finished || now_s < state_->due_s) return;
    state_->extra = extra;
    state_->show(now_s);
}

void ProgressLine::finish() {
    const std::lock_guard lock(state_->mutex);
    if (!state_->finished && state_->printed_plain) state_->show(state_->clock());
    state_->finish();
}

}  // namespace lm::cli
