// SPDX-License-Identifier: Apache-2.0
// The messages that state why a job ended (log_cause.hpp): of lm-train, Megatron-LM, Python,
// PyTorch, NCCL, CUDA, the kernel, Slurm, torchrun and MPI.
#pragma once

#include <span>
#include <string_view>

namespace lm::metrics {

// The strongest line of a log is its cause.
enum class CauseStrength {
    hint,     // a word such as "error" in a line that no rule knows
    orderly,  // a planned end
    echo,     // a report that follows a cause
    effect,   // a report of a launcher or of another rank
    error,    // a message of the failing program
    root,     // a message that states the cause
};

// A message and its meaning. A line matches when it contains both texts.
struct CauseRule {
    std::string_view text;
    std::string_view also;  // empty: no second text
    // finished, stopped, killed, failed, out_of_memory, nan, full_disk, superseded, ...
    std::string_view kind;
    CauseStrength strength;   // the line of the largest strength is the cause; if equal, the first
    std::string_view source;  // the program that prints the message
};

// The first rule that matches a line counts: special messages precede general ones.
std::span<const CauseRule> cause_rules();

}  // namespace lm::metrics
