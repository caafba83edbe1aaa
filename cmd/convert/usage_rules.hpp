// SPDX-License-Identifier: Apache-2.0
// Rules of lm-convert's command line that concern several options. Each function throws
// Error(usage) when its rule is broken.
#pragma once

#include <string>
#include <vector>

#include "cli/options.hpp"
#include "convert/formats/model_format.hpp"

namespace lm {

// Refuses an empty path among IN... and OUT.
void refuse_empty_paths(const cli::Options& options, const std::vector<std::string>& paths);

// Refuses an option that a conversion between these formats does not use.
void refuse_unused_options(const cli::Options& options, const convert::ModelFormat& from,
                           const convert::ModelFormat& to);

// Refuses an option that --against does not use.
void refuse_options_of_conversions(const cli::Options& options);

// Returns the path of the output of each input: a directory in `output_dir` with the last part of
// the input's path as its name. Refuses inputs without such a name, and two inputs with the same
// name.
std::vector<std::string> outputs_in(const std::string& output_dir,
                                    const std::vector<std::string>& inputs);

}  // namespace lm
