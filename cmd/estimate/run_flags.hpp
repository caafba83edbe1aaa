// SPDX-License-Identifier: Apache-2.0
// The command line of lm-train, which every verb accepts. The help of a verb shows the flags that
// the verb uses. The verb ignores all other flags silently.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/format/tokenizer_files.hpp"
#include "cli/options.hpp"
#include "config/train_flags.hpp"
#include "cost/nccl.hpp"
#include "spec/batch_ramp.hpp"

namespace lm::estimate {

// Declares all flags of lm-train. `shown`: the names and groups of flags that the help of the verb
// shows. Declare the verb's own options before this call, so that its help shows them first.
void add_run_options(cli::Options& options, config::TrainFlags& flags,
                     const std::vector<std::string>& shown);

// Returns `flags` with the values of --deepspeed_config. Every verb calls this function first.
config::TrainFlags resolve_flags(const config::TrainFlags& flags);

// Returns the model that lm-train trains with these flags. Takes the vocabulary size from the
// tokenizer or the data if their files can be read. Throws Error(usage) for invalid flags.
spec::ModelConfig resolve_model(const config::TrainFlags& flags);

// Returns the files of the tokenizer that each step of the run stores; nullopt if the flags name
// neither data nor a tokenizer, or their files cannot be read.
std::optional<std::vector<ckpt::TokenizerFile>> resolve_tokenizer(const config::DataFlags& flags);

// Returns the layout of the ranks. Without --world-size it has one replica. Throws Error(usage).
spec::ParallelConfig resolve_ranks(const config::TrainFlags& flags, const spec::ModelConfig& model);

// Returns --micro-batch-size, or 1 when it is not given. Throws Error(usage) for an invalid value.
i64 resolve_micro_batch(const config::TrainFlags& flags);

// The batch sizes and samples of a training.
struct BatchSchedule {
    spec::BatchRamp ramp;
    i64 samples = 0;
};
// Throws Error(usage) when no flag gives the batch size.
void require_batch(const config::ScheduleFlags& flags);
// Throws Error(usage): --global-batch-size is missing.
[[noreturn]] void refuse_missing_batch();
// Returns the schedule that the flags describe. When `seq_length` is 0, it is not known. Throws
// Error(usage) for invalid flags, and for --train-tokens with an unknown `seq_length`.
BatchSchedule resolve_schedule(const config::TrainFlags& flags, i64 seq_length);
// Returns the steps of the ramp, at least one. Throws Error(usage) when the training has fewer
// samples than its first batch.
std::vector<spec::RampStep> resolve_steps(const spec::BatchRamp& ramp, i64 samples);
// Returns the number of micro-batches of a step in one pipeline. Throws Error(usage) when the batch
// is not a multiple of the micro-batches of `dp` data-parallel ranks.
i64 whole_micro_batches(i64 global_batch, i64 micro_batch, i64 dp);
// Returns the settings that change NCCL's memory. Throws Error(usage) for an invalid value.
cost::NcclUse resolve_nccl(const config::TrainFlags& flags);

}  // namespace lm::estimate
