// SPDX-License-Identifier: Apache-2.0
// The flags that divide a model over ranks, with Megatron's names and defaults.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/field.hpp"
#include "config/model_flags.hpp"
#include "spec/data_parallel_config.hpp"
#include "spec/partition.hpp"

namespace lm::config {

struct ParallelFlags {
    cli::WithDefault<i64> tensor = 1;
    bool sequence = false;  // --sequence-parallel
    cli::WithDefault<i64> pipeline = 1;
    std::optional<i64> layers_per_virtual_stage;
    std::optional<i64> virtual_stages;  // chunks per stage
    std::optional<i64> first_stage_layers, last_stage_layers;
    bool count_embedding = false, count_loss = false;  // --account-for-*-in-pipeline-split
    cli::WithDefault<std::string> partition_method{"uniform"};
    bool recompute_activations = false;
    std::string recompute_granularity;  // empty: not given
    std::string recompute_method;
    std::optional<i64> recompute_layers;
    bool checkpoint_activations = false;  // old name of full recomputation
    std::string checkpoint_method;        // --activations-checkpoint-method; empty: not given
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

// The flags of data parallelism, with Megatron's names and defaults: which rank updates which
// weights, which communication overlaps with computation, and how ranks check each other.
struct ZeroFlags {
    bool distributed_optimizer = false;  // --use-distributed-optimizer
    std::optional<i64> stage;            // --zero-stage
};

struct RankCheckFlags {
    i64 check_replicas = 100;  // iterations between two checks; 0: none
    double timeout_min = 10;   // --distributed-timeout-minutes
    bool node_check = true;    // false with --no-node-check

    // Throws Error(usage) naming the flag whose value is invalid.
    void check() const;
};

const Fields<ZeroFlags>& zero_fields();
const Fields<spec::DataParallelConfig>& data_parallel_fields();
const Fields<RankCheckFlags>& rank_check_fields();

// Returns the ZeRO stage that the flags choose, 0 or 1. Throws Error(usage) for another stage, for
// flags that contradict each other, and for values out of range.
int resolve_zero_stage(const ZeroFlags& zero, const spec::DataParallelConfig& data_parallel);

}  // namespace lm::config
