// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_line.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "metrics/log_json_line.hpp"
#include "metrics/printed_seconds.hpp"

namespace lm::metrics {
namespace {

using namespace std::string_view_literals;

constexpr auto npos = std::string_view::npos;

// memmem() is many times faster than string_view::find. That matters because most lines of a log do
// not contain the text.
size_t find(std::string_view text, std::string_view what, size_t from = 0) {
    const void* at = ::memmem(text.data() + from, text.size() - from, what.data(), what.size());
    return at ? static_cast<size_t>(static_cast<const char*>(at) - text.data()) : npos;
}

std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t");
    if (first == npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

template <typename T>
std::optional<T> number(std::string_view text) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

// Parses a text from its start; rest() is the part that is not yet parsed.
class Scanner {
  public:
    explicit Scanner(std::string_view text) : rest_(text) {}

    // Returns whether the rest starts with `word`. If so, skips `word`.
    bool skip(std::string_view word) {
        if (!rest_.starts_with(word)) return false;
        rest_.remove_prefix(word.size());
        return true;
    }
    void skip_blanks() {
        rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
    }
    std::optional<i64> parse_count() {
        const size_t n = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
        const std::optional<i64> value = number<i64>(rest_.substr(0, n));
        rest_.remove_prefix(n);
        return value;
    }
    // Parses exactly `digits` digits.
    std::optional<int> parse_digits(size_t digits) {
        if (rest_.size() < digits) return std::nullopt;
        const std::string_view text = rest_.substr(0, digits);
        if (text.find_first_not_of("0123456789") != npos) return std::nullopt;
        rest_.remove_prefix(digits);
        return number<int>(text);
    }
    std::string_view rest() const { return rest_; }

  private:
    std::string_view rest_;
};

// ---- Time stamps -------------------------------------------------------------------------------

double fraction_of(Scanner& text) {
    if (!text.skip(".") && !text.skip(",")) return 0;
    const std::string_view digits =
        text.rest().substr(0, text.rest().find_first_not_of("0123456789"));
    text.skip(digits);
    return digits.empty() ? 0
                          : static_cast<double>(number<i64>(digits.substr(0, 9)).value_or(0)) /
                                std::pow(10, std::min<size_t>(digits.size(), 9));
}

// Returns the seconds of a time zone such as "+01:00" or "+0100".
double zone_of(Scanner text) {
    const bool west = text.skip("-");
    if (!west && !text.skip("+")) return 0;
    const std::optional<int> hours = text.parse_digits(2);
    text.skip(":");
    const std::optional<int> minutes = text.parse_digits(2);
    if (!hours || !minutes) return 0;
    return (west ? -1 : 1) * (*hours * 3600.0 + *minutes * 60.0);
}

std::optional<double> time_stamp_at(std::string_view text) {
    Scanner scanner(text);
    int parts[6] = {};
    constexpr std::string_view separators[] = {"-", "-", " ", ":", ":", ""};
    for (size_t i = 0; i < 6; ++i) {
        const std::optional<int> part = scanner.parse_digits(i == 0 ? 4 : 2);
        if (!part) return std::nullopt;
        parts[i] = *part;
        if (!scanner.skip(separators[i]) && !(i == 2 && scanner.skip("T"))) return std::nullopt;
    }
    const std::chrono::year_month_day day{std::chrono::year(parts[0]),
                                          std::chrono::month(static_cast<unsigned>(parts[1])),
                                          std::chrono::day(static_cast<unsigned>(parts[2]))};
    if (!day.ok() || parts[3] > 23 || parts[4] > 59 || parts[5] > 60) return std::nullopt;
    const auto days = std::chrono::sys_days(day).time_since_epoch().count();
    const double fraction = fraction_of(scanner);
    return static_cast<double>(days) * 86400.0 + parts[3] * 3600.0 + parts[4] * 60.0 + parts[5] +
           fraction - zone_of(scanner);
}

// ---- Megatron's line ---------------------------------------------------------------------------

// Parses the fields "name: value |" that the summary needs, and ignores all other fields. A loss or
// a norm may be nan.
struct Fields {
    LoggedIteration& out;
    std::optional<double> step_s, samples_per_s;

    // Returns false when a needed field has no valid value.
    bool parse(std::string_view name, std::string_view value) {
        if (name == "consumed samples"sv) return whole(value, out.consumed_samples);
        if (name == "consumed tokens"sv) return whole(value, out.consumed_tokens);
        if (name == "global batch size"sv) return whole(value, out.global_batch);
        if (name == "elapsed time per iteration (s)"sv) return seconds(value, 1);
        if (name == "elapsed time per iteration (ms)"sv) return seconds(value, 1000);
        if (name == "samples per second"sv) samples_per_s = number<double>(value);
        if (name == "lm loss"sv) out.loss = number<double>(value);
        if (name == "grad norm"sv) out.grad_norm = number<double>(value);
        if (name == "learning rate"sv) out.learning_rate = number<double>(value);
        if (name == "number of skipped iterations"sv) out.skipped = few(value);
        if (name == "number of nan iterations"sv) out.nan = few(value);
        if (name == "TFLOPs"sv || name == "throughput per GPU (TFLOP/s/GPU)"sv) tera(value);
        return true;
    }

  private:
    static bool whole(std::string_view value, std::optional<i64>& to) {
        to = number<i64>(value);
        return to && *to >= 0 && *to <= largest_count;
    }
    static i64 few(std::string_view value) {
        return std::clamp<i64>(number<i64>(value).value_or(0), 0, largest_count);
    }
    bool seconds(std::string_view value, double per_second) {
        step_s = number<double>(value);
        if (!step_s || !std::isfinite(*step_s) || *step_s < 0) return false;
        *step_s /= per_second;
        return true;
    }
    void tera(std::string_view value) {
        const std::optional<double> x = number<double>(value);
        if (x && std::isfinite(*x) && *x >= 0) out.flops_per_s = *x * 1e12;
    }
};

// Returns the step time with the best precision. Megatron prints the elapsed time with two decimals
// and the samples per second with three, so for short steps the time from the samples per second is
// more precise. That time is used only if it agrees with the elapsed time, because old versions of
// Megatron-DeepSpeed print samples per second that are 1000 times too small.
double precise_step_s(const Fields& fields) {
    const double printed = *fields.step_s;
    const auto& batch = fields.out.global_batch;
    if (!batch || !fields.samples_per_s || !(*fields.samples_per_s > 0)) return printed;
    const double derived = static_cast<double>(*batch) / *fields.samples_per_s;
    return std::abs(derived - printed) <= 0.0051 ? derived : printed;
}

// Parses the text after "iteration N/". Returns false when the line is incomplete or mixed with
// another line.
bool read_fields(std::string_view text, LoggedIteration& iteration) {
    Scanner scanner(text);
    scanner.skip_blanks();
    const std::optional<i64> total = scanner.parse_count();
    scanner.skip_blanks();
    if (!total || *total > largest_count || !scanner.skip("|")) return false;
    iteration.total_iterations = *total;
    Fields fields{iteration, {}, {}};
    std::string_view rest = scanner.rest();
    // Ignores a field without a bar after it, since the field may be incomplete.
    for (size_t bar; (bar = rest.find('|')) != npos; rest.remove_prefix(bar + 1)) {
        const std::string_view field = rest.substr(0, bar);
        const size_t colon = field.find(':');
        if (colon == npos) continue;
        if (!fields.parse(trimmed(field.substr(0, colon)), trimmed(field.substr(colon + 1)))) {
            return false;
        }
    }
    if (!fields.step_s) return false;
    iteration.step_s = precise_step_s(fields);
    return true;
}

// The place of the text "iteration N/" in a line; `begin` is npos when the line has no such text.
struct Mark {
    size_t begin = npos;
    size_t end = 0;  // offset after the slash
    i64 iteration = 0;
};
// Returns the first mark at or after `from`.
Mark find_mark(std::string_view line, size_t from) {
    constexpr std::string_view word = "iteration";
    for (size_t at; (at = find(line, word, from)) != npos; from = at + 1) {
        Scanner scanner(line.substr(at + word.size()));
        if (!scanner.rest().starts_with(' ')) continue;
        scanner.skip_blanks();
        const std::optional<i64> n = scanner.parse_count();
        if (!n || *n > largest_count || !scanner.skip("/")) continue;
        return {at, line.size() - scanner.rest().size(), *n};
    }
    return {};
}

// Parses a line that has one or more marks. Several marks mean that several ranks printed into one
// line; then only the iteration of the last mark may be complete.
bool read_megatron(std::string_view line, LogLine& out) {
    Mark mark = find_mark(line, 0);
    if (mark.begin == npos) return false;
    for (Mark next; (next = find_mark(line, mark.end)).begin != npos; mark = next) {
        ++out.n_invalid;
    }
    LoggedIteration& iteration = out.iteration;
    iteration.iteration = mark.iteration;
    if (!read_fields(line.substr(mark.end), iteration)) {
        ++out.n_invalid;
        return true;
    }
    constexpr size_t longest_prefix = 200;
    const size_t from = mark.begin - std::min(mark.begin, longest_prefix);
    iteration.unix_time_s = time_stamp_in(line.substr(from, mark.begin - from));
    iteration.digest = std::hash<std::string_view>{}(line.substr(mark.begin));
    out.kind = LogLine::Kind::iteration;
    return true;
}

// ---- Other lines -------------------------------------------------------------------------------

// Parses Megatron's "will use batch size rampup starting from global batch size A to global batch
// size B with batch size increments C over D samples."
bool read_ramp(std::string_view line, LogLine& out) {
    constexpr std::string_view words[] = {"rampup starting from global batch size ",
                                          " to global batch size ", " with batch size increments ",
                                          " over "};
    const size_t at = find(line, words[0]);
    if (at == npos) return false;
    Scanner scanner(line.substr(at));
    i64* const values[] = {&out.ramp.start, &out.ramp.global_batch, &out.ramp.increment,
                           &out.ramp.samples};
    for (size_t i = 0; i < 4; ++i) {
        if (!scanner.skip(words[i])) return false;
        const std::optional<i64> value = scanner.parse_count();
        if (!value) return false;
        *values[i] = *value;
    }
    out.kind = LogLine::Kind::ramp;
    return true;
}

// Returns the time stamp at the start of a line of --log-file.
std::optional<double> time_of_log_file(std::string_view line) {
    return line.starts_with("20") ? time_stamp_at(line) : std::nullopt;
}

// Parses the line of a loaded checkpoint: Megatron's "successfully loaded checkpoint from DIR at
// iteration N" or lm-train's "resuming after iteration N".
bool read_loaded(std::string_view line, LogLine& out) {
    constexpr std::string_view megatron = " at iteration ", ours = ": resuming after iteration ";
    size_t at = find(line, ours);
    if (at != npos) {
        at += ours.size();
    } else if (find(line, "successfully loaded checkpoint from") != npos &&
               (at = line.rfind(megatron)) != npos) {
        at += megatron.size();
    } else {
        return false;
    }
    const std::optional<i64> iteration = Scanner(line.substr(at)).parse_count();
    if (!iteration) return false;
    out.loaded_iteration = *iteration;
    out.unix_time_s = time_of_log_file(line);
    out.kind = LogLine::Kind::loaded;
    return true;
}

// Parses lm-train's "SIGUSR1: stopped after iteration 75 of 196: rerun the same command to resume".
bool read_stop(std::string_view line, LogLine& out) {
    constexpr std::string_view words = ": stopped after iteration ";
    const size_t at = find(line, words);
    if (at == npos || find(line, "lm-train: ") > at) return false;
    out.stopped_after = Scanner(line.substr(at + words.size())).parse_count();
    if (!out.stopped_after || *out.stopped_after > largest_count) return false;
    out.unix_time_s = time_of_log_file(line);
    out.kind = LogLine::Kind::stop;
    return true;
}

// Returns the time stamp at the start of a line: the stamp of --log-file, or a stamp in brackets
// before offset `text`.
std::optional<double> time_before(std::string_view line, size_t text) {
    const auto time = time_of_log_file(line);
    return time ? time : time_stamp_in(line.substr(0, text));
}

// Parses the line of an evaluation: "NAME loss at iteration N | lm loss value: ...".
bool read_validation(std::string_view line, LogLine& out) {
    const size_t at = find(line, " loss at ");
    if (at == npos || find(line, "| lm loss value: ") == npos) return false;
    out.unix_time_s = time_before(line, at);
    out.kind = LogLine::Kind::validation;
    return true;
}

// Parses the line of a save: Megatron's "time (ms) | save-checkpoint: 57514.53" or lm-train's
// "DIR/global_stepN: saved, 2.3 TiB in 40.0 s, loop blocked 1.2 s".
bool read_saved(std::string_view line, LogLine& out) {
    constexpr std::string_view timer = "save-checkpoint: ", blocked = ", loop blocked ";
    const size_t note = find(line, ": saved, ");
    size_t at = npos;
    if (note != npos) {
        at = find(line, blocked, note);
        const size_t in = find(line, " in ", note);
        if (at == npos && in == npos) return false;
        out.busy_s = printed_seconds(line.substr(at != npos ? at + blocked.size() : in + 4));
        out.unix_time_s = time_of_log_file(line);
    } else if (line.find("time (ms) |") != npos && (at = find(line, timer)) != npos) {
        const std::string_view value = line.substr(at + timer.size());
        const auto ms = number<double>(value.substr(0, value.find_first_not_of("0123456789.")));
        if (ms) out.busy_s = *ms / 1000;
    } else {
        return false;
    }
    out.kind = LogLine::Kind::saved;
    return true;
}

// Parses a line of --log-file, such as "> program      lm-train VERSION", which states a start.
bool read_ours(std::string_view line, LogLine& out) {
    out.unix_time_s = time_of_log_file(line);
    if (find(line, "> program      lm-train ") != npos) {
        out.kind = LogLine::Kind::start;
    } else if (out.unix_time_s && find(line, "Z lm-train: ") != npos) {
        out.kind = LogLine::Kind::clock;
    }
    return out.kind != LogLine::Kind::other;
}

// Parses a line with a time stamp, such as "[after megatron is initialized] datetime: 2021-08-08
// 01:00:51 ".
bool read_clock(std::string_view line, LogLine& out) {
    constexpr std::string_view word = "] datetime: ";
    const size_t at = find(line, word);
    if (at == npos) return false;
    out.unix_time_s = time_stamp_in(line.substr(at, 64));
    if (!out.unix_time_s) return false;
    const bool starts = find(line, "[after megatron is initialized") != npos;
    const bool stops =
        find(line, "[exiting program") != npos || find(line, "[after training is done") != npos;
    out.kind = starts ? LogLine::Kind::start : stops ? LogLine::Kind::stop : LogLine::Kind::clock;
    return true;
}

}  // namespace

std::optional<double> time_stamp_in(std::string_view text) {
    constexpr size_t shortest = "2026-01-31 12:00:00"sv.size();
    for (size_t at = text.size() < shortest ? npos : text.size() - shortest; at != npos; --at) {
        if (text[at + 4] != '-' || text[at + 13] != ':') continue;
        if (const auto time = time_stamp_at(text.substr(at))) return time;
    }
    return std::nullopt;
}

LogLine read_log_line(std::string_view line) {
    LogLine out;
    if (line.starts_with('{')) {
        if (find(line, R"("kind":")") != npos) read_json_line(line, out);
        return out;
    }
    if (find(line, "iteration") != npos) {
        if (read_megatron(line, out) || read_loaded(line, out) || read_stop(line, out)) return out;
    }
    if (read_clock(line, out) || read_ramp(line, out) || read_validation(line, out)) return out;
    if (read_saved(line, out)) return out;
    read_ours(line, out);
    return out;
}

std::optional<double> time_of(const LogLine& line) {
    return line.kind == LogLine::Kind::iteration ? line.iteration.unix_time_s : line.unix_time_s;
}

}  // namespace lm::metrics
