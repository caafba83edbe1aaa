// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_cause.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

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
    return has(line, "warning: ") || has(line, "NOT SAVED") || has(line, "Warning: ") ||
           has(line, "WARNING");
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
// word and number. Tries the words in their order.
template <size_t n>
std::optional<i64> number_after(std::string_view line,
                                const std::array<std::string_view, n>& words) {
    for (const std::string_view word : words) {
        for (size_t at = line.find(word); at != no_place; at = line.find(word, at + 1)) {
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

}  // namespace

void LogCause::consider(const CauseRule& rule, std::string_view line) {
    const std::optional<i64> rank = rank_of(line);
    if (!first_rank_ && rule.strength >= effect) first_rank_ = rank;
    if (root_ && root_->rule->strength >= rule.strength) {
        if (!root_->rank && has_rank(*root_->rule)) root_->rank = first_rank_;
        return;
    }
    root_ = Cause{&rule, std::string(line.substr(0, max_bytes)), n_lines_, rank, {}};
    if (!root_->rank && has_rank(rule)) root_->rank = first_rank_;
    const bool names_signal = has(line, "got signal: ") || has(line, "SIGTERM");
    if (rule.kind == "killed" || (rule.kind == "cancelled" && names_signal)) {
        root_->signal = signal_of(line);
    }
    n_iterations_after_ = 0;
}

void LogCause::add(std::string_view text) {
    ++n_lines_;
    const std::string_view line = without_blanks(text);
    if (line.empty() || is_argument(line)) return;
    const LogLine parsed = parse_log_line(line);
    const LoggedIteration* const step = parsed.iteration();
    // Lines of several ranks mix, so a line after an error may be older than the error.
    constexpr i64 max_late_lines = 2;
    const bool continues = step && ++n_iterations_after_ > max_late_lines;
    if (parsed.starts() || continues) {
        root_.reset();
        hint_.reset();
        first_rank_.reset();
    }
    if (step) {
        if (step->loss && !std::isfinite(*step->loss)) {
            hint_ =
                Cause{&loss_not_finite, std::string(line.substr(0, max_bytes)), n_lines_, {}, {}};
        }
        if (step->iteration == step->total_iterations) consider(last_iteration, line);
        return;
    }
    if (line == killed_word.text) {
        consider(killed_word, line);
        return;
    }
    const CauseRule* rule = find_rule(line);
    if (rule == nullptr && is_exception_name(line)) rule = &bare_exception;
    if (rule != nullptr) {
        consider(*rule, line);
        return;
    }
    if (names_a_failure(line)) {
        hint_ = Cause{&unknown, std::string(line.substr(0, max_bytes)), n_lines_, {}, {}};
        n_iterations_after_ = 0;
    }
    find_rank_of_launcher(line);
}

// Finds the failed rank that a launcher states. torchrun prints a block with "rank : 3 (local_rank:
// 3)" for each failed rank; the block of the first failure is the last block, after "Root Cause".
// Open MPI prints "Process name: [[29973,1],3]".
void LogCause::find_rank_of_launcher(std::string_view line) {
    constexpr std::array<std::string_view, 1> end_of_job{"],"};
    if (root_ && !root_->rank && line.starts_with("Process name: [[")) {
        root_->rank = number_after(line, end_of_job);
    }
    if (has(line, "Root Cause (first")) root_block_ = true;
    if (!root_ || !has(line, "(local_rank:")) return;
    if (!root_->rank || (root_block_ && root_->rule->source == "torchrun")) {
        root_->rank = rank_of(line);
    }
    root_block_ = false;
}

}  // namespace lm::metrics
