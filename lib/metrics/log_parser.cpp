// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_parser.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "base/host_list.hpp"
#include "io/json.hpp"
#include "metrics/log_labels.hpp"

namespace lm::metrics {
namespace {

using namespace std::string_view_literals;

constexpr auto npos = std::string_view::npos;

// A larger count is not valid, because it consists of two counts that were printed without a space
// between them.
constexpr i64 largest_count = 1'000'000'000'000'000;

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

// Returns whether an iteration can have taken so long.
bool is_step_time(double s) {
    constexpr double longest = 1e9;  // 30 years
    return s >= 0 && s <= longest;
}

// ---- Megatron's line ---------------------------------------------------------------------------

// Parses the fields "LABEL: VALUE |" that the summary needs, and ignores all other fields. A loss
// or a norm may be nan.
class Fields {
  public:
    explicit Fields(LoggedIteration& to) : to_(to) {}

    // Returns false when a needed field has no valid value.
    bool parse(std::string_view label, std::string_view value) {
        for (const auto& [name, member] : counts) {
            if (label == name) return whole(value, to_.*member);
        }
        for (const auto& [name, member] : values) {
            if (label == name) to_.*member = number<double>(value);
        }
        if (label == labels::elapsed_s) return seconds(value, 1);
        if (label == labels::elapsed_ms) return seconds(value, 1000);
        if (label == labels::samples_per_s) samples_per_s_ = number<double>(value);
        if (label == labels::skipped) to_.skipped = few(value);
        if (label == labels::nan) to_.nan = few(value);
        if (label == labels::tflops || label == labels::throughput) tera(value);
        return true;
    }
    // Returns the step time with the best precision; nullopt when the line does not have it.
    // Megatron prints the elapsed time with two decimals and the samples per second with three, so
    // for short steps the time from the samples per second is more precise. That time is used only
    // if it agrees with the elapsed time, because old versions of Megatron-DeepSpeed print samples
    // per second that are 1000 times too small.
    std::optional<double> step_s() const {
        if (!step_s_ || !to_.global_batch || !samples_per_s_ || !(*samples_per_s_ > 0))
            return step_s_;
        const double derived = static_cast<double>(*to_.global_batch) / *samples_per_s_;
        return std::abs(derived - *step_s_) <= 0.0051 ? derived : *step_s_;
    }

  private:
    template <typename T>
    using Field = std::pair<std::string_view, std::optional<T> LoggedIteration::*>;
    static constexpr Field<i64> counts[] = {
        {labels::consumed_samples, &LoggedIteration::consumed_samples},
        {labels::consumed_tokens, &LoggedIteration::consumed_tokens},
        {labels::global_batch, &LoggedIteration::global_batch}};
    static constexpr Field<double> values[] = {
        {labels::loss, &LoggedIteration::loss},
        {labels::grad_norm, &LoggedIteration::grad_norm},
        {labels::learning_rate, &LoggedIteration::learning_rate}};

    static bool whole(std::string_view value, std::optional<i64>& to) {
        to = number<i64>(value);
        return to && *to >= 0 && *to <= largest_count;
    }
    static i64 few(std::string_view value) {
        return std::clamp<i64>(number<i64>(value).value_or(0), 0, largest_count);
    }
    bool seconds(std::string_view value, double per_second) {
        step_s_ = number<double>(value);
        if (!step_s_) return false;
        *step_s_ /= per_second;
        return is_step_time(*step_s_);
    }
    void tera(std::string_view value) {
        const std::optional<double> x = number<double>(value);
        if (x && std::isfinite(*x) && *x >= 0) to_.flops_per_s = *x * 1e12;
    }

    LoggedIteration& to_;
    std::optional<double> step_s_, samples_per_s_;
};

// Parses the text after "iteration N/". Returns false when the line is incomplete or mixed with
// another line.
bool read_fields(std::string_view text, LoggedIteration& iteration) {
    Scanner scanner(text);
    scanner.skip_blanks();
    const std::optional<i64> total = scanner.parse_count();
    scanner.skip_blanks();
    if (!total || *total > largest_count || !scanner.skip("|")) return false;
    iteration.total_iterations = *total;
    Fields fields(iteration);
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
    const std::optional<double> step_s = fields.step_s();
    iteration.step_s = step_s.value_or(0);
    return step_s.has_value();
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
    LoggedIteration iteration{.iteration = mark.iteration};
    if (!read_fields(line.substr(mark.end), iteration)) {
        ++out.n_invalid;
        return true;
    }
    constexpr size_t longest_prefix = 200;
    const size_t from = mark.begin - std::min(mark.begin, longest_prefix);
    out.unix_time_s = time_stamp_in(line.substr(from, mark.begin - from));
    iteration.digest = std::hash<std::string_view>{}(line.substr(mark.begin));
    out.content = iteration;
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
    LoggedRamp ramp;
    i64* const values[] = {&ramp.start, &ramp.global_batch, &ramp.increment, &ramp.samples};
    for (size_t i = 0; i < 4; ++i) {
        if (!scanner.skip(words[i])) return false;
        const std::optional<i64> value = scanner.parse_count();
        if (!value) return false;
        *values[i] = *value;
    }
    out.content = ramp;
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
    out.unix_time_s = time_of_log_file(line);
    out.content = LoadEvent{*iteration};
    return true;
}

// Parses lm-train's "SIGUSR1: stopped after iteration 75 of 196: rerun the same command to resume".
bool read_stop(std::string_view line, LogLine& out) {
    constexpr std::string_view words = ": stopped after iteration ";
    const size_t at = find(line, words);
    if (at == npos || find(line, "lm-train: ") > at) return false;
    const std::optional<i64> last = Scanner(line.substr(at + words.size())).parse_count();
    if (!last || *last > largest_count) return false;
    out.unix_time_s = time_of_log_file(line);
    out.content = StopEvent{last};
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
    out.content = EvaluationEvent{};
    return true;
}

// Returns the seconds of a duration that human_duration() (base/units.hpp) has printed and with
// which `text` starts: "1 h 02 min", "3 min 05 s", "12.3 s"; nullopt when `text` does not start
// with a duration.
std::optional<double> printed_seconds(std::string_view text) {
    constexpr std::pair<std::string_view, double> units[] = {
        {" ms", 1e-3}, {" us", 1e-6}, {" min", 60}, {" s", 1}, {" h", 3600}, {" d", 86400}};
    std::optional<double> seconds;
    while (!text.empty()) {
        const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
        const auto value = number<double>(text.substr(0, digits));
        text.remove_prefix(digits);
        const auto* unit = std::ranges::find_if(
            units, [text](const auto& u) { return text.starts_with(u.first); });
        if (!value || unit == std::end(units)) break;
        seconds = seconds.value_or(0) + *value * unit->second;
        text.remove_prefix(unit->first.size());
        if (!text.starts_with(' ')) break;
        text.remove_prefix(1);
    }
    return seconds;
}

// Parses the line of a save: Megatron's "time (ms) | save-checkpoint: 57514.53" or lm-train's
// "DIR/global_stepN: saved, 2.3 TiB in 40.0 s, loop blocked 1.2 s".
bool read_saved(std::string_view line, LogLine& out) {
    constexpr std::string_view timer = "save-checkpoint: ", blocked = ", loop blocked ";
    const size_t note = find(line, ": saved, ");
    SaveEvent save;
    size_t at = npos;
    if (note != npos) {
        at = find(line, blocked, note);
        const size_t in = find(line, " in ", note);
        if (at == npos && in == npos) return false;
        save.busy_s = printed_seconds(line.substr(at != npos ? at + blocked.size() : in + 4));
        out.unix_time_s = time_of_log_file(line);
    } else if (line.find("time (ms) |") != npos && (at = find(line, timer)) != npos) {
        const std::string_view value = line.substr(at + timer.size());
        const auto ms = number<double>(value.substr(0, value.find_first_not_of("0123456789.")));
        if (ms) save.busy_s = *ms / 1000;
    } else {
        return false;
    }
    out.content = save;
    return true;
}

// Parses a line of --log-file, such as "> program      lm-train VERSION", which states a start.
void read_ours(std::string_view line, LogLine& out) {
    out.unix_time_s = time_of_log_file(line);
    if (find(line, "> program      lm-train ") != npos) {
        out.content = StartEvent{};
    } else if (out.unix_time_s && find(line, "Z lm-train: ") != npos) {
        out.content = ClockEvent{};
    }
}

// Parses a line with a time stamp, such as "[after megatron is initialized] datetime: 2021-08-08
// 01:00:51 ".
bool read_clock(std::string_view line, LogLine& out) {
    constexpr std::string_view word = "] datetime: ";
    const size_t at = find(line, word);
    if (at == npos) return false;
    out.unix_time_s = time_stamp_in(line.substr(at, 64));
    if (!out.unix_time_s) return false;
    if (find(line, "[after megatron is initialized") != npos) {
        out.content = StartEvent{};
    } else if (find(line, "[exiting program") != npos ||
               find(line, "[after training is done") != npos) {
        out.content = StopEvent{};
    } else {
        out.content = ClockEvent{};
    }
    return true;
}

// ---- Lines of --log-json -----------------------------------------------------------------------

template <typename T>
std::optional<T> number_in(const io::Json& json, const char* key) {
    const auto at = json.find(key);
    const bool fits = std::integral<T> ? at != json.end() && at->is_number_integer()
                                       : at != json.end() && at->is_number();
    constexpr auto most = static_cast<T>(largest_count);
    if (!fits || at->get<T>() < 0 || at->get<T>() > most) return std::nullopt;
    return at->get<T>();
}

// Returns the number of hosts in the member "nodes", a list as Slurm writes it; 0 without this
// member.
i64 n_hosts_of(const io::Json& json) {
    const auto at = json.find("nodes");
    if (at == json.end() || !at->is_string()) return 0;
    const auto hosts = expand_hosts(at->get_ref<const std::string&>());
    return hosts ? std::ssize(*hosts) : 0;
}

// Returns the event of this kind: a start, a resume, a save, a stop, ...
LogEvent event_of(const std::string& kind, const io::Json& json) {
    const std::optional<i64> iteration = number_in<i64>(json, "iteration");
    if (kind == "start")
        return StartEvent{n_hosts_of(json), number_in<double>(json, "elapsed_s").value_or(0)};
    if (kind == "resume" && iteration) return LoadEvent{*iteration};
    if (kind == "stop") return StopEvent{iteration};
    if (kind == "error") return StopEvent{};
    if (kind == "validation") return EvaluationEvent{number_in<double>(json, "elapsed_s")};
    if (kind == "save") {
        const char* key = json.contains("blocked_s") ? "blocked_s" : "elapsed_s";
        return SaveEvent{number_in<double>(json, key)};
    }
    return ClockEvent{};
}

void read_json_event(std::string_view line, LogLine& out) {
    const io::Json json = io::json_or_null(line);
    if (!json.is_object()) return;
    out.unix_time_s = number_in<double>(json, "time");
    const auto kind = json.find("kind");
    if (kind == json.end() || !kind->is_string()) return;
    const LogEvent event = event_of(kind->get_ref<const std::string&>(), json);
    const bool needs_time =
        !std::holds_alternative<StartEvent>(event) && !std::holds_alternative<LoadEvent>(event);
    if (out.unix_time_s || !needs_time) out.content = event;
}

// Parses a logged iteration of --log-json.
void read_json_step(std::string_view line, LogLine& out) {
    const io::Json json = io::json_or_null(line);
    std::optional<i64> iteration, total;
    std::optional<double> step_s;
    if (json.is_object()) {
        iteration = number_in<i64>(json, "iteration");
        total = number_in<i64>(json, "total_iterations");
        step_s = number_in<double>(json, "step_s");
    }
    if (!iteration || !total || !step_s || !is_step_time(*step_s)) {
        ++out.n_invalid;
        return;
    }
    out.unix_time_s = number_in<double>(json, "time");
    out.content = LoggedIteration{.iteration = *iteration,
                                  .total_iterations = *total,
                                  .step_s = *step_s,
                                  .consumed_samples = number_in<i64>(json, "consumed_samples"),
                                  .consumed_tokens = number_in<i64>(json, "consumed_tokens"),
                                  .global_batch = number_in<i64>(json, "global_batch_size"),
                                  .flops_per_s = number_in<double>(json, "flops_per_s"),
                                  .loss = number_in<double>(json, "lm_loss"),
                                  .grad_norm = number_in<double>(json, "grad_norm"),
                                  .learning_rate = number_in<double>(json, "learning_rate"),
                                  .skipped = number_in<i64>(json, "skipped_iterations").value_or(0),
                                  .nan = number_in<i64>(json, "nan_iterations").value_or(0),
                                  .digest = std::hash<std::string_view>{}(line)};
}

void read_json(std::string_view line, LogLine& out) {
    if (find(line, R"("kind":"step")") != npos) {
        read_json_step(line, out);
    } else if (find(line, R"("kind":")") != npos) {
        read_json_event(line, out);
    }
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

LogLine parse_log_line(std::string_view line) {
    LogLine out;
    if (line.starts_with('{')) {
        read_json(line, out);
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

}  // namespace lm::metrics
