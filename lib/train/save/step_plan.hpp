// SPDX-License-Identifier: Apache-2.0
// Plans the files of a checkpoint before a run exists.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spec/numerics.hpp"
#include "spec/rank_layout.hpp"

namespace lm::train {

// A run that saves checkpoints.
struct SavingRun {
    const spec::ModelConfig& model;
    const spec::ParallelConfig& parallel;
    spec::Precision precision;
    std::optional<i64> bucket_elements;  // --ddp-bucket-size
    i64 n_nodes = 1;                     // each node has the same number of consecutive ranks
};

struct StepFile {
    std::string name;
    i64 bytes = 0;
};

// Returns the files in the directory of a step that the run saves, sorted by name, with their exact
// sizes. The manifest has manifest_room bytes for the keys whose length depends on the run. Calls
// the functions that plan the files of a save, and writes nothing.
std::vector<StepFile> files_of_step(const SavingRun& run);

}  // namespace lm::train
