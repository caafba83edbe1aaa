// SPDX-License-Identifier: Apache-2.0
#include "run_flags.hpp"

#include <array>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "ckpt/history/steps.hpp"
#include "config/deepspeed.hpp"
#include "config/rank_counts.hpp"
#include "config/schedule_flags.hpp"
#include "data/sampling/datasets.hpp"
#include "text/choice/tokenizer_choice.hpp"
#include "train/config/run_data.hpp"

namespace lm::estimate {
namespace {

// Returns the flags with the training data only.
config::DataFlags training_data(const config::DataFlags& flags) {
    config::DataFlags read = flags;
    read.valid_groups_file = read.test_groups_file = "";
    config::read_data_files(read);
    read.paths = {.data_path = read.paths.data_path,
                  .train_path = read.paths.train_path,
                  .train_groups = read.paths.train_groups};
    return read;
}

std::optional<i64> vocabulary_of_data(const config::DataFlags& flags) {
    const std::vector<std::string> prefixes = data::data_prefixes(training_data(flags).paths);
    if (prefixes.empty()) return std::nullopt;
    const auto facts = data::data_facts(prefixes);
    return facts ? std::optional(facts->tokenizer.vocab_size) : std::nullopt;
}

// Returns the vocabulary size of the tokenizer or the data. Returns nullopt if --vocab-size is
// given, and, with a warning, if the files are missing, because a machine on which a user plans a
// training need not have the files of the training.
std::optional<i64> vocabulary_of(const config::TrainFlags& flags) {
    if (flags.model.vocab_size) return std::nullopt;
    const text::TokenizerChoice& choice = flags.data.tokenizer;
    try {
        if (choice.names_one()) {
            return text::load_tokenizer(choice)->vocab_size();
        }
        return vocabulary_of_data(flags.data);
    } catch (const Error& error) {
        if (error.code() == Exit::bug) throw;
        warn("{} (the vocabulary is {}: --vocab-size sets another)", error.what(),
             flags.model.preset.empty() ? "assumed to be GPT-2's" : "that of --model");
        return std::nullopt;
    }
}

}  // namespace

void add_run_options(cli::Options& options, config::TrainFlags& flags,
                     const std::vector<std::string>& shown) {
    const size_t first = options.table().size();
    config::add_train_options(options, flags);
    options.show_only(shown, first);
    constexpr std::array usual{"--model",
                               "--micro-batch-size",
                               "--global-batch-size",
                               "--train-samples",
                               "--train-tokens",
                               "--bf16",
                               "--fp16",
                               "--tensor-model-parallel-size",
                               "--pipeline-model-parallel-size",
                               "--use-distributed-optimizer"};
    options.describe_only({usual.begin(), usual.end()}, first);
}

config::TrainFlags resolve_flags(const config::TrainFlags& flags) {
    config::TrainFlags resolved = flags;
    config::apply_deepspeed(resolved, resolved.action.world_size);
    resolved.rank_checks.check();
    return resolved;
}

spec::ModelConfig resolve_model(const config::TrainFlags& flags) {
    config::ModelFlags model = flags.model;
    const config::CheckpointFlags& checkpoints = flags.checkpoints;
    if (checkpoints.use_saved_model && !checkpoints.load.empty()) {
        if (const auto saved = ckpt::open_if_any(checkpoints.load)) {
            model.saved = saved->manifest().model;
        }
    }
    return config::resolve_model(model, vocabulary_of(flags), flags.parallel.tensor);
}

std::optional<std::vector<ckpt::TokenizerFile>> resolve_tokenizer(const config::DataFlags& flags) {
    try {
        const config::DataFlags read = training_data(flags);
        const bool known = read.mock_data || read.tokenizer.names_one() ||
                           !data::data_prefixes(read.paths).empty();
        if (known) return train::tokenizer_files(read);
    } catch (const Error& error) {
        if (error.code() == Exit::bug) throw;  // the files may be on another machine
    }
    return std::nullopt;
}

spec::ParallelConfig resolve_ranks(const config::TrainFlags& flags,
                                   const spec::ModelConfig& model) {
    spec::ParallelConfig parallel = resolve_parallel(flags.parallel, flags.model, model);
    parallel.zero_stage = config::resolve_zero_stage(flags.zero, flags.data_parallel);
    const auto& world_size = flags.action.world_size;
    if (world_size) parallel.dp = config::replicas_of(*world_size, parallel).dp;
    return parallel;
}

i64 resolve_micro_batch(const config::TrainFlags& flags) {
    const i64 micro_batch = flags.schedule.micro_batch.value_or(1);
    check_at_least("--micro-batch-size", micro_batch, 1);
    return micro_batch;
}

void require_batch(const config::ScheduleFlags& flags) {
    if (!flags.global_batch && flags.batch_steps.empty() && flags.micro_batch.value_or(0) < 1)
        refuse_missing_batch();
}

void refuse_missing_batch() {
    usage_error("--global-batch-size",
                "is missing: give the number of samples of a step, such as 512, a multiple of the "
                "micro-batch size x the data-parallel ranks");
}

BatchSchedule resolve_schedule(const config::TrainFlags& flags, i64 seq_length) {
    require_batch(flags.schedule);
    if (!flags.schedule.curriculum.type.empty()) {
        note("the curriculum is ignored: every sequence counts with its full length");
    }
    const spec::BatchRamp ramp = config::batch_ramp(flags.schedule, seq_length);
    return {ramp, config::training_samples(flags.schedule, ramp, seq_length)};
}

std::vector<spec::RampStep> resolve_steps(const spec::BatchRamp& ramp, i64 samples) {
    std::vector<spec::RampStep> steps = ramp_steps(ramp, samples);
    if (steps.empty()) {
        usage_error("--train-samples", "{} is less than the first batch of {}", samples,
                    ramp.batch_at(0));
    }
    return steps;
}

i64 whole_micro_batches(i64 global_batch, i64 micro_batch, i64 dp) {
    const i64 unit = checked_mul(micro_batch, dp);
    if (global_batch < 1 || global_batch % unit != 0) {
        usage_error("--global-batch-size",
                    "{} is not a multiple of micro batch {} x {} data-parallel ranks = {}: use {}",
                    global_batch, micro_batch, dp, unit,
                    config::multiples_around(global_batch, unit));
    }
    return global_batch / unit;
}

cost::NcclUse resolve_nccl(const config::TrainFlags& flags) {
    check_at_least("--tensor-comm-sms", flags.device.tensor_comm_sms.value_or(0), 0);
    return {.overlap = flags.data_parallel.overlaps(),
            .tensor_comm_sms = flags.device.tensor_comm_sms,
            .nvls = !flags.device.deterministic_mode};
}

}  // namespace lm::estimate
