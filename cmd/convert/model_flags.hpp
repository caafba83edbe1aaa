// SPDX-License-Identifier: Apache-2.0
// The flags that describe the model of a Megatron checkpoint without stored arguments: the flags of
// lm-train with the same names.
#pragma once

#include <string>

#include "cli/options.hpp"
#include "config/model_flags.hpp"

namespace lm {

// Declares the flags. `options` and `flags` must outlive parsing and must not move.
void add_model_flags(cli::Options& options, config::ModelFlags& flags);

// Returns the first of these flags on the command line; an empty text when there is none.
std::string given_model_flag(const cli::Options& options);

// Returns the model of the checkpoint `path`, which states the model `stated`; a size that it does
// not state is 0. Throws Error(usage) that names all missing flags.
spec::ModelConfig complete_model(config::ModelFlags flags, const spec::ModelConfig& stated,
                                 const std::string& path);

}  // namespace lm
