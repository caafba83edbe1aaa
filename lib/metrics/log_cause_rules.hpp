// SPDX-License-Identifier: Apache-2.0
// The messages that state why a job ended (log_cause.hpp). They come from lm-train, Megatron-LM,
// Python, PyTorch, NCCL, CUDA, the kernel, Slurm, torchrun and MPI.
#pragma once

#include <span>
#include <string_view>

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

}  // namespace lm::metrics
