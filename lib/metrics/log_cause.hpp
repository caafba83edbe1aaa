// SPDX-License-Identifier: Apache-2.0
// Finds the line of a log that states why the last job ended: the root cause, not its consequences
// on other ranks. Knows messages of lm-train, Megatron-LM, Python, PyTorch, NCCL, CUDA, the kernel,
// Slurm, torchrun and MPI.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "metrics/log_parser.hpp"

namespace lm::metrics {

// How clearly a line states the cause, in ascending order. The line with the greatest strength is
// the cause.
enum class CauseStrength {
    hint,     // a word such as "error" in a line that matches no rule
    orderly,  // a planned end
    echo,     // a report that follows a cause
    effect,   // a report of a launcher or of another rank
    error,    // a message of the failing program
    root,     // a message that states the cause
};

// A message and its meaning. A line is this message when it contains the texts `text` and `also`.
struct CauseRule {
    std::string_view text;
    std::string_view also;  // empty: no second text
    // How the job ended: finished, stopped, killed, failed, out_of_memory, nan, full_disk, ...
    std::string_view kind;
    CauseStrength strength;   // among lines of equal strength, the first is the cause
    std::string_view source;  // the program that prints the message
};

// Returns all rules. The first rule that matches a line counts, so specific messages precede
// general messages.
std::span<const CauseRule> cause_rules();

// The kind of a line that reports a failure but matches no rule.
constexpr std::string_view unknown_cause = "unknown";

struct Cause {
    const CauseRule* rule = nullptr;
    std::string line;  // without blanks at both ends, at most 400 bytes
    i64 line_number = 0;
    std::optional<i64> rank;
    std::string host;  // of the rank, or the host that failed; empty: not known
    std::optional<i64> signal;
};

// Finds why the last job in a log ended. Forgets the cause when a program starts, when a checkpoint
// is loaded, and at the third iteration that is logged after the error.
class LogCause {
  public:
    void add(std::string_view line);
    i64 n_lines() const { return n_lines_; }
    // Returns the root cause; nullopt when no line states why the job ended. In this case the
    // training still runs, or its process was killed without a message in this log.
    const std::optional<Cause>& root() const { return root_; }
    // Returns the last line that reports a failure but matches no rule (kind `unknown`), or the
    // last iteration when its loss is not finite (kind `nan`); nullopt when there is no such line.
    // The failure may be harmless.
    const std::optional<Cause>& hint() const { return hint_; }

  private:
    // The rank and the host that a message names.
    struct Place {
        std::optional<i64> rank;
        std::string host;
    };
    // The block in which torchrun describes a failed rank, until the line of the rank.
    struct LauncherBlock {
        bool is_root = false;  // the first failure
        std::string host;
    };
    void consider(const CauseRule& rule, std::string_view line);
    void add_iteration(const LoggedIteration& step, std::string_view line);
    void set_hint(const CauseRule& rule, std::string_view line);
    bool locates_root(const CauseRule& rule, const Place& place) const;
    void locate_root(const Place& place);
    void find_place_of_launcher(std::string_view line);
    void read_block(std::string_view line);
    void forget();

    std::optional<Cause> root_, hint_;
    Place first_place_;  // in the first error line that states a rank
    LauncherBlock block_;
    i64 n_lines_ = 0, n_iterations_after_ = 0;
};

}  // namespace lm::metrics
