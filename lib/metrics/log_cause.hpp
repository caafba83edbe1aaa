// SPDX-License-Identifier: Apache-2.0
// Finds the line of a log that states why the last job ended: the root cause, not its consequences
// on other ranks. Knows messages of lm-train, Megatron-LM, Python, PyTorch, NCCL, CUDA, the kernel,
// Slurm, torchrun and MPI.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "metrics/log_cause_rules.hpp"

namespace lm::metrics {

// The kind of a line that reports a failure but matches no rule.
constexpr std::string_view unknown_cause = "unknown";

struct Cause {
    const CauseRule* rule = nullptr;
    std::string line;  // without blanks at both ends, at most 400 bytes
    i64 line_number = 0;
    std::optional<i64> rank, signal;
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
    void consider(const CauseRule& rule, std::string_view line);
    void find_rank_of_launcher(std::string_view line);

    std::optional<Cause> root_, hint_;
    std::optional<i64> first_rank_;  // the rank in the first error line that states a rank
    i64 n_lines_ = 0, n_iterations_after_ = 0;
    bool root_block_ = false;  // inside torchrun's block "Root Cause", before the line of the rank
};

}  // namespace lm::metrics
