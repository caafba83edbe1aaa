// SPDX-License-Identifier: Apache-2.0
// The flags that divide a model over ranks, with Megatron's names and defaults.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/field.hpp"
#include "config/model_flags.hpp"
#include "spec/partition.hpp"

namespace lm::config {

struct ParallelFlags {
    i64 tensor = 1;
    bool sequence = false;  // --sequence-parallel
    i64 pipeline = 1;
    std::optional<i64> layers_per_virtual_stage;
    std::optional<i64> virtual_stages;  // chunks per stage
    std::optional<i64> first_stage_layers, last_stage_layers;
    bool count_embedding = false, count_loss = false;  // --account-for-*-in-pipeline-split
    std::string partition_method = "uniform";
    bool recompute_activations = false;
    std::string recompute_granularity;  // empty: not given
    std::string recompute_method;
    std::optional<i64> recompute_layers;
    bool checkpoint_activations = false;  // old name of full recomputation
    std::optional<i64> checkpoint_layers;
};
const Fields<ParallelFlags>& parallel_fields();
const Fields<ParallelFlags>& stage_fields();
const Fields<ParallelFlags>& recompute_fields();
void add_parallel_options(cli::Options& options, ParallelFlags& flags);

// Returns a text "--flag: problem: remedy" for each invalid flag. A flag is also invalid when it
// asks for more ranks, stages or chunks than the model has heads, groups, MLP columns or layers:
// the shares of the ranks may differ in size, but no share may be empty.
std::vector<std::string> layout_problems(const ParallelFlags& flags,
                                         const spec::ModelConfig& model);

// Returns a configuration that has only the sizes of the dimensions, with one replica. The sizes
// are not checked.
spec::ParallelConfig sizes_of(const ParallelFlags& flags);

// Returns the parallel configuration that the flags describe. If layout_problems() finds problems,
// throws Error(usage) with the first problem.
spec::ParallelConfig resolve_parallel(const ParallelFlags& flags, const ModelFlags& model_flags,
                                      const spec::ModelConfig& model);

// Throws Error(usage) when sequence parallelism cannot divide the rows of a micro-batch into equal
// parts.
void require_equal_rows(const spec::ParallelConfig& parallel, i64 micro_batch, i64 seq_length);

}  // namespace lm::config
