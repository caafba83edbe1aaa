// SPDX-License-Identifier: Apache-2.0
// Writes a layout as flags of lm-train and of lm-estimate time, quoted for a shell.
#pragma once

#include <string>

#include "cost/layout_search.hpp"
#include "gpu_options.hpp"

namespace lm::estimate {

// Returns all flags of lm-train for a layout: the flags of the command line (the model, the batch,
// the precision, ...) in their order, then the flags that the search has set.
std::string train_flags(const cli::Options& options, const cost::LayoutQuery& query,
                        const cost::Layout& layout);

// Returns the flags that lm-estimate time needs for the same step in addition to train_flags(): the
// GPUs, their hardware and the trainer.
std::string time_flags(const cost::LayoutQuery& query, const GpuFlags& flags);

}  // namespace lm::estimate
