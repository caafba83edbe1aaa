// SPDX-License-Identifier: Apache-2.0
// Flags of Megatron-LM and Megatron-DeepSpeed scripts that lm-train does not have. Flags without
// effect here are accepted with a note; flags that would change a result are refused with the
// reason; flags of features that do not exist yet are left to the program (cli::Options::later).
// No flag is ignored silently.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace lm::config {

// Megatron flags of which lm-train supports one value only.
struct MegatronChoices {
    std::string optimizer = "adam";
    std::string dataloader = "single";
};

// Declares those flags. Call it after all other options are declared: a flag that `options` already
// has is skipped.
void add_megatron_flags(cli::Options& options, MegatronChoices& choices);

}  // namespace lm::config
