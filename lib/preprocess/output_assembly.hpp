// SPDX-License-Identifier: Apache-2.0
// Assembles the parts into one dataset per key in the work directory.
#pragma once

#include <vector>

#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "preprocess/input_plan.hpp"
#include "preprocess/part_journal.hpp"
#include "preprocess/work_directory.hpp"

namespace lm::preprocess {

struct AssemblyTask {
    const WorkDirectory& work;
    const InputPlan& plan;
    data::TokenType type;
    int n_threads;
    // The common content of all metadata files; counts and digests are filled in for each output.
    data::DatasetMetadata metadata;
};

// Writes key-K.bin, .idx and .json for each key, and then `complete`. `records` has the record of
// each part, in order.
void assemble_outputs(const AssemblyTask& task, const std::vector<PartRecord>& records);

// If there is only one part, the assembly renames its .bin. If an earlier run was killed after this
// rename, restores the name of the part. Does nothing when there are several parts.
void restore_part_bin(const WorkDirectory& work, const InputPlan& plan, i64 part);

}  // namespace lm::preprocess
