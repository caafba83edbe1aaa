// SPDX-License-Identifier: Apache-2.0
// The messages that state why a job ended (log_cause.hpp): of lm-train, Megatron-LM, Python,
// PyTorch, NCCL, CUDA, the kernel, Slurm, torchrun and MPI.
#pragma once

#include <span>
#include <string_view>

namespace lm::metrics {

// The strongest line of a log is its cause.
enum class CauseStrength {
    hint,     // words of a failure
    orderly,  // a planned end
    echo,     // a report that follows a cause
    effect,   // a report of a launcher or of another rank
    error,    // a message of the failing program
    root,     // a cause by itself
};

// A message and its meaning. A line matches when it contains both texts.
struct CauseRule {
    std::string_view text;
    std::string_view also;  // empty: no second text
    // finished, stopped, killed, failed, out_of_memory, nan, full_disk, superseded, ...
    std::string_view kind;
    CauseStrength strength;   // a line with a larger one is the root; of equal ones, the first
    std::string_view source;  // the program that prints the message
};

// The first rule that matches a line counts: special messages precede general ones.
std::span<const CauseRule> cause_rules();

}  // namespace lm::metrics
