// SPDX-License-Identifier: Apache-2.0
// Flags of Megatron-LM and Megatron-DeepSpeed scripts that lm-train does not have.
// A flag without effect here is accepted with a note that states the reason
// (cli::Options::accepted()). A flag that would change a result is refused with
// the reason (cli::Options::refused()). A value with which a refused flag changes
// nothing is accepted with a note. No flag is ignored silently.
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
