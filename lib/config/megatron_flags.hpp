// SPDX-License-Identifier: Apache-2.0
// Flags of Megatron-LM and Megatron-DeepSpeed scripts that lm-train does not have. A flag
// without effect here is accepted with a note. A flag that would change a result is refused
// with the reason. A flag of a feature that does not exist yet is recorded
// (cli::Options::later), and each program decides whether to accept it. No flag is ignored
// silently.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace lm::config {

// Megatron flags for which lm-train supports one value only.
struct MegatronChoices {
    std::string optimizer = "adam";
    std::string dataloader = "single";
};

// Declares the flags that `options` does not have yet. Call it after all other options are
// declared.
void add_megatron_flags(cli::Options& options, MegatronChoices& choices);

}  // namespace lm::config
