// SPDX-License-Identifier: Apache-2.0
// Assembles the parts of all ranks into one dataset per key in the work directory. Every rank
// copies its own parts to their places and computes digests of its share of the blocks.
#pragma once

#include <vector>

#include "base/launcher.hpp"
#include "cluster/file_rendezvous.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "preprocess/input_plan.hpp"
#include "preprocess/part_journal.hpp"
#include "preprocess/work_directory.hpp"

namespace lm::preprocess {

struct AssemblyTask {
    const WorkDirectory& work;
    const InputPlan& plan;
    const Launched& launch;
    data::TokenType type;
    int n_threads;
    // The common content of all metadata files; counts and digests are filled in for each output.
    data::DatasetMetadata metadata;
};

// Writes key-K.bin, .idx and .json for each key, and then `complete`. `records` has the record of
// each part of all ranks, in order. Collective.
void assemble_outputs(const AssemblyTask& task, const std::vector<PartRecord>& records,
                      cluster::FileRendezvous& ranks);

// If there is only one part, the assembly renames its .bin. If an earlier run was killed after this
// rename, restores the name of the part. Does nothing when there are several parts.
void restore_part_bin(const WorkDirectory& work, const InputPlan& plan, i64 part);

}  // namespace lm::preprocess
