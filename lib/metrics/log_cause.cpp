// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_cause.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "metrics/log_parser.hpp"

namespace lm::metrics {
namespace {

using enum CauseStrength;

constexpr auto no_place = std::string_view::npos;
constexpr size_t max_bytes = 400;  // kept bytes of a line

bool has(std::string_view line, std::string_view text) {
    return line.find(text) != no_place;
}

// Returns whether the line is only a warning, after which the training continues.
bool is_warning(std::string_view line) {
    return has(line, "warning: ") || has(line, "Warning: ") || has(line, "WARNING");
}

// Returns whether the line is one of the arguments that Megatron-LM lists at its start, such as
// "error_injection_rate ............ 0".
bool is_argument(std::string_view line) {
    return has(line, " .....");
}

const CauseRule* find_rule(std::string_view line) {
    const bool warning = is_warning(line), is_note = has(line, "note: ");
    for (const CauseRule& rule : cause_rules()) {
        if (!has(line, rule.text) || !has(line, rule.also)) continue;
        const bool stop = rule.strength == orderly || rule.kind == "kill_switch";
        if (is_note && !stop) return nullptr;
        if (warning && rule.strength != echo) return nullptr;
        return &rule;
    }
    return nullptr;
}

// Returns the first number that follows one of the words, with only characters of " :(-=" between
// word and number. Tries the words in their order. A word after '_' does not count: the local_rank
// of torchrun is the rank within a host.
template <size_t n>
std::optional<i64> number_after(std::string_view line,
                                const std::array<std::string_view, n>& words) {
    for (const std::string_view word : words) {
        for (size_t at = line.find(word); at != no_place; at = line.find(word, at + 1)) {
            if (at > 0 && line[at - 1] == '_') continue;
            const size_t digits = line.find_first_not_of(" :(-=", at + word.size());
            i64 value = 0;
            if (digits == no_place) break;
            const char* const end = line.data() + line.size();
            if (std::from_chars(line.data() + digits, end, value).ec == std::errc{}) return value;
        }
    }
    return std::nullopt;
}

// Returns the rank at the start of the line ("3: text" of srun --label, "[rank3]: text" of
// PyTorch), else the rank that the text names.
std::optional<i64> rank_of(std::string_view line) {
    // A launcher prints the command of its last process, whose --local_rank is not the rank of the
    // failed process.
    if (has(line, "exits with return code") || has(line, "CalledProcessError")) return {};
    i64 value = 0;
    const auto [stop, failed] = std::from_chars(line.data(), line.data() + line.size(), value);
    const std::string_view rest(stop, static_cast<size_t>(line.data() + line.size() - stop));
    if (failed == std::errc{} && rest.starts_with(": ")) return value;
    constexpr std::array<std::string_view, 9> words{"waiting for rank",
                                                    "Ranks",
                                                    "[rank",
                                                    "[Rank",
                                                    "process rank",
                                                    "rank",
                                                    "Rank",
                                                    "RANK",
                                                    " task"};
    return number_after(line, words);
}

// Returns the name of a host with which `text` starts; an empty text when it starts with none, or
// with a list of hosts.
std::string_view host_at(std::string_view text) {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t n = 0;
    while (n < text.size() && (std::isalnum(static_cast<unsigned char>(text[n])) != 0 ||
                               std::string_view("._-").find(text[n]) != no_place)) {
        ++n;
    }
    std::string_view name = text.substr(0, n);
    while (name.ends_with('.')) name.remove_suffix(1);
    const bool is_list = n < text.size() && (text[n] == '[' || text[n] == ',');
    const bool is_number = name.find_first_of(letters) == no_place && !has(name, ".");
    return is_list || is_number ? std::string_view() : name;
}

// Returns the text after a number at the start of `text`; an empty text when it starts with none.
std::string_view after_number(std::string_view text) {
    const size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
    return n == 0 ? std::string_view() : text.substr(n);
}

// Returns the host in "rank 3 on n2" or "rank 3 (n2)" of lm-train.
std::string_view host_of_rank(std::string_view line) {
    constexpr std::string_view word = "rank ";
    for (size_t at = line.find(word); at != no_place; at = line.find(word, at + 1)) {
        const std::string_view rest = after_number(line.substr(at + word.size()));
        if (rest.starts_with(" on ")) return host_at(rest.substr(4));
        if (!rest.starts_with(" (")) continue;
        const std::string_view host = host_at(rest.substr(2));
        if (rest.substr(2 + host.size()).starts_with(")")) return host;
    }
    return {};
}

// Returns the host before a line of NCCL ("n1:99:120 [0] NCCL WARN ...") or of the kernel in the
// log of a system ("Jan 31 12:00:00 n17 kernel: ...").
std::string_view host_before(std::string_view line) {
    const std::string_view host = host_at(line);
    std::string_view rest = line.substr(host.size());
    for (int n = 0; n < 2; ++n) rest = rest.starts_with(':') ? after_number(rest.substr(1)) : "";
    if (rest.starts_with(" [")) return host;
    const size_t kernel = line.find(" kernel: ");
    if (kernel == no_place) return {};
    const std::string_view before = line.substr(0, kernel);
    const std::string_view word = before.substr(before.rfind(' ') + 1);
    return host_at(word) == word ? word : std::string_view();
}

// Returns the host that caused the message; an empty text when the line names none. The host of
// "JOB 4711 ON n1" runs the script of the job, so it does not count.
std::string_view host_of(std::string_view line) {
    struct Place {
        std::string_view before, after;  // the texts around the name
    };
    constexpr std::array places{Place{"Node failure on ", ""}, Place{" failed on node ", ""},
                                Place{"missing from batch node ", ""},
                                Place{"srun: error: ", ": task"}, Place{" on node ", ""}};
    for (const Place& place : places) {
        const size_t at = line.find(place.before);
        if (at == no_place) continue;
        const std::string_view rest = line.substr(at + place.before.size());
        const std::string_view host = host_at(rest);
        if (!host.empty() && rest.substr(host.size()).starts_with(place.after)) return host;
    }
    const std::string_view host = host_of_rank(line);
    return host.empty() ? host_before(line) : host;
}

std::optional<i64> signal_of(std::string_view line) {
    struct Name {
        std::string_view text;
        i64 number;
    };
    constexpr std::array names{Name{"Segmentation fault", 11},
                               Name{"Bus error", 7},
                               Name{"Killed", 9},
                               Name{"Aborted", 6},
                               Name{"Terminated", 15},
                               Name{"Floating point", 8},
                               Name{"Illegal instr", 4},
                               Name{"exit code 134", 6},
                               Name{"exit code 135", 7},
                               Name{"exit code 137", 9},
                               Name{"exit code 139", 11},
                               Name{"SIGKILL", 9},
                               Name{"SIGSEGV", 11},
                               Name{"SIGABRT", 6},
                               Name{"SIGBUS", 7},
                               Name{"SIGTERM", 15}};
    for (const Name& name : names) {
        if (has(line, name.text)) return name.number;
    }
    constexpr std::array<std::string_view, 6> words{"signal",   "Signal",    "SIGNAL",
                                                    "exitcode", "EXIT CODE", "return code"};
    return number_after(line, words);
}

std::string_view without_blanks(std::string_view line) {
    constexpr std::string_view blanks = " \t\r\n";
    const size_t first = line.find_first_not_of(blanks);
    if (first == no_place) return {};
    return line.substr(first, line.find_last_not_of(blanks) - first + 1);
}

// Returns whether one rank caused the event of `rule`. A node failure, the end of a job by Slurm
// and a planned stop concern all ranks.
bool has_rank(const CauseRule& rule) {
    constexpr std::array<std::string_view, 7> all_ranks{"node_failure", "time_limit",  "preempted",
                                                        "cancelled",    "kill_switch", "superseded",
                                                        "no_progress"};
    return rule.strength != orderly && std::ranges::find(all_ranks, rule.kind) == all_ranks.end();
}

// Returns whether the host of the message or of its rank caused the event. A host that reports a
// lost connection did not.
bool has_host(const CauseRule& rule) {
    return (has_rank(rule) && rule.kind != "connection") || rule.kind == "node_failure";
}

// A shell prints only this word when the program that it ran was killed.
constexpr CauseRule killed_word{"Killed", "", "killed", effect, "shell"};
constexpr CauseRule bare_exception{"Error", "", "failed", error, "Python"};
constexpr CauseRule unknown{"", "", unknown_cause, hint, "an unknown program"};
// When a training continues with a loss that is not finite, only the line of the iteration shows
// this.
constexpr CauseRule loss_not_finite{"lm loss", "", "nan", hint, "the loss of an iteration"};
constexpr CauseRule last_iteration{"iteration", "", "finished", orderly, "the last iteration"};

// Returns whether the line is the name of a Python exception without a message.
bool is_exception_name(std::string_view line) {
    return !has(line, " ") && (line.ends_with("Error") || line.ends_with("Exception"));
}

// Returns whether a line that matches no rule reports some failure.
bool names_a_failure(std::string_view line) {
    constexpr std::array<std::string_view, 11> words{"error",  "Error",   "ERROR",    "failed",
                                                     "FAILED", "failure", "fatal",    "Fatal",
                                                     "FATAL",  "panic",   "NCCL WARN"};
    return !is_warning(line) && !has(line, "note: ") && !has(line, "INFO") &&
           std::ranges::any_of(words, [line](std::string_view word) { return has(line, word); });
}

// Returns the rule of a line that is not an iteration; nullptr when no rule matches.
const CauseRule* rule_of(std::string_view line) {
    if (line == killed_word.text) return &killed_word;
    const CauseRule* const rule = find_rule(line);
    return rule == nullptr && is_exception_name(line) ? &bare_exception : rule;
}

}  // namespace

// Returns whether a message names the place of the event that another message has only stated: the
// host of a node failure.
bool LogCause::locates_root(const CauseRule& rule, const Place& place) const {
    return rule.kind == "node_failure" && root_->rule->kind == rule.kind && root_->host.empty() &&
           !place.host.empty();
}

// Adds the rank and the host to the root, unless it has them already. A host counts only if it is
// that of the root's rank.
void LogCause::locate_root(const Place& place) {
    const bool elsewhere = !root_->host.empty() && !place.host.empty() && root_->host != place.host;
    if (!has_rank(*root_->rule) || !place.rank || elsewhere) return;
    if (!root_->rank) root_->rank = place.rank;
    // A full disk is often a shared one.
    const bool is_of_host = has_host(*root_->rule) && root_->rule->kind != "full_disk";
    if (is_of_host && root_->host.empty() && root_->rank == place.rank) root_->host = place.host;
}

void LogCause::consider(const CauseRule& rule, std::string_view line) {
    const Place place{rank_of(line), std::string(host_of(line))};
    if (!first_place_.rank && rule.strength >= effect) first_place_ = place;
    if (root_ && root_->rule->strength >= rule.strength && !locates_root(rule, place)) {
        locate_root(first_place_);
        if (root_->rank == place.rank) locate_root(place);
        return;
    }
    root_ = Cause{&rule, std::string(line.substr(0, max_bytes)), n_lines_, place.rank, {}, {}};
    if (has_host(rule)) root_->host = place.host;
    locate_root(first_place_);
    const bool names_signal = has(line, "got signal: ") || has(line, "SIGTERM");
    if (rule.kind == "killed" || (rule.kind == "cancelled" && names_signal)) {
        root_->signal = signal_of(line);
    }
    n_iterations_after_ = 0;
}

void LogCause::forget() {
    root_.reset();
    hint_.reset();
    first_place_ = {};
}

void LogCause::set_hint(const CauseRule& rule, std::string_view line) {
    hint_ = Cause{&rule, std::string(line.substr(0, max_bytes)), n_lines_, {}, {}, {}};
}

void LogCause::add_iteration(const LoggedIteration& step, std::string_view line) {
    // Lines of several ranks mix, so a line after an error may be older than the error.
    constexpr i64 max_late_lines = 2;
    if (++n_iterations_after_ > max_late_lines) forget();
    if (step.loss && !std::isfinite(*step.loss)) set_hint(loss_not_finite, line);
    if (step.iteration == step.total_iterations) consider(last_iteration, line);
}

void LogCause::add(std::string_view text) {
    ++n_lines_;
    const std::string_view line = without_blanks(text);
    if (line.empty() || is_argument(line)) return;
    const LogLine parsed = parse_log_line(line);
    if (parsed.starts()) forget();
    if (const LoggedIteration* step = parsed.iteration()) {
        add_iteration(*step, line);
    } else if (const CauseRule* rule = rule_of(line)) {
        consider(*rule, line);
    } else {
        if (names_a_failure(line)) {
            set_hint(unknown, line);
            n_iterations_after_ = 0;
        }
        find_place_of_launcher(line);
    }
}

// Finds the failed rank and its host in the lines of a launcher. Open MPI prints "Process name:
// [[29973,1],3]", and "Remote daemon: [[29973,0],1] on node n2".
void LogCause::find_place_of_launcher(std::string_view line) {
    constexpr std::array<std::string_view, 1> end_of_job{"],"};
    read_block(line);
    if (!root_) return;
    if (!root_->rank && line.starts_with("Process name: [["))
        root_->rank = number_after(line, end_of_job);
    if (root_->rule->kind == "node_failure" && line.starts_with("Remote daemon: "))
        root_->host = host_of(line);
}

// torchrun prints a block with "host : n2" and "rank : 3 (local_rank: 3)" for each failed rank; the
// block of the first failure is the last block, after "Root Cause".
void LogCause::read_block(std::string_view line) {
    if (has(line, "Root Cause (first")) block_ = {.is_root = true, .host = {}};
    if (line.starts_with("host  "))
        block_.host = host_at(line.substr(std::min(line.find_first_not_of(" :", 4), line.size())));
    if (!root_ || !has(line, "(local_rank:")) return;
    const bool is_first = block_.is_root && root_->rule->source == "torchrun";
    const Place place{rank_of(line), std::exchange(block_, {}).host};
    if (root_->rank && !is_first) {
        locate_root(place);
        return;
    }
    root_->rank = place.rank;
    if (is_first || root_->host.empty()) root_->host = place.host;
}

}  // namespace lm::metrics
