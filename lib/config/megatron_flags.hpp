// SPDX-License-Identifier: Apache-2.0
// Flags of Megatron-LM and Megatron-DeepSpeed scripts that are no options of ours: those that mean
// nothing here are accepted with a note, those that would change a result are refused with the
// reason, those that are not built yet are left to the program (cli::Options::later). None is
// ignored silently.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace lm::config {

// Where --optimizer, --dataloader-type and --lr-... name the only value we have.
struct MegatronChoices {
    std::string optimizer = "adam";
    std::string dataloader = "single";
};

// Call after all other options are declared: a flag that `options` has already is skipped.
void add_megatron_flags(cli::Options& options, MegatronChoices& choices);

}  // namespace lm::config
