// SPDX-License-Identifier: Apache-2.0
#include "train/config/run_json.hpp"

#include <type_traits>

#include "ckpt/format/model_json.hpp"
#include "config/field_json.hpp"

namespace lm::train {
namespace {

using config::Block;
using io::OrderedJson;

OrderedJson steps_json(const spec::BatchRamp& ramp, i64 seq_length) {
    OrderedJson steps;
    for (const spec::BatchFrom& step : ramp.steps) {
        steps.push_back(fmt::format("{}:{}", step.samples * seq_length, step.batch));
    }
    return steps;
}

OrderedJson ramp_json(const spec::BatchRamp& ramp) {
    if (ramp.start == 0 || !ramp.steps.empty()) return nullptr;
    return {ramp.start, ramp.increment, ramp.samples};
}

// Returns the ranges of --skip-train-iteration-range.
OrderedJson skip_json(const std::vector<IterationRange>& skipped) {
    OrderedJson ranges = OrderedJson::array();
    for (const IterationRange& range : skipped) {
        if (!range.rate_advances) continue;
        ranges.push_back(fmt::format("{}-{}", range.first, range.last));
    }
    return ranges;
}

OrderedJson curriculum_json(const std::optional<spec::Curriculum>& curriculum) {
    if (!curriculum) return nullptr;
    OrderedJson json = {{"schedule", name_of(curriculum->kind)}};
    if (curriculum->kind == spec::Curriculum::Kind::fixed_discrete) {
        json["difficulties"] = curriculum->lengths;
        json["max_steps"] = curriculum->max_steps;
        return json;
    }
    json["min_difficulty"] = curriculum->min;
    json["max_difficulty"] = curriculum->max;
    json["total_steps"] = curriculum->total_steps;
    json["difficulty_step"] = curriculum->difficulty_step;
    json["root_degree"] = curriculum->root_degree;
    return json;
}

// Returns null for 0, which stands for a value that was not given.
OrderedJson json_or_null(i64 value) {
    return value > 0 ? OrderedJson(value) : OrderedJson();
}

// The functions below return the resolved values of a block (config::add_json).
OrderedJson parallel_values(const RunConfig& config) {
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    const spec::Recompute& recompute = parallel.recompute;
    const bool full = recompute.granularity == spec::Recompute::Granularity::full;
    const std::string_view granularity =
        name_in(spec::recompute_granularities, recompute.granularity);
    const std::string_view method = name_in(spec::recompute_methods, recompute.method);
    OrderedJson json{{"world_size", parallel.n_ranks()}};
    for (const spec::Dimension& each : spec::dimensions) json[each.key] = parallel.*each.size;
    json.update({{"virtual_pipeline_chunks", parallel.n_chunks},
                 {"first_stage_layers", json_or_null(parallel.first_stage_layers)},
                 {"last_stage_layers", json_or_null(parallel.last_stage_layers)},
                 {"pp_partition_method", name_in(spec::pipeline_balances, parallel.balance)},
                 {"sequence_parallel", parallel.sequence_parallel},
                 {"padded_vocab_size", spec::padded_vocab(config.trainer.model, parallel)},
                 {"zero_stage", parallel.zero_stage},
                 {"recompute_granularity", granularity},
                 {"recompute_method", full ? OrderedJson(method) : nullptr},
                 {"recompute_num_layers", full ? OrderedJson(recompute.n_layers) : nullptr}});
    return json;
}

void add_kernels(OrderedJson& json, const TrainerConfig& trainer) {
    const OrderedJson omitted(OrderedJson::value_t::discarded);
    json["attention_backend"] =
        trainer.cuda ? OrderedJson(name_in(spec::gpu_attentions, trainer.attention)) : omitted;
    json["deterministic_mode"] = trainer.cuda ? OrderedJson(trainer.deterministic) : omitted;
}

void add_rates(OrderedJson& json, const spec::Schedule& schedule) {
    const auto& decoupled = schedule.decoupled();
    json["decoupled_lr"] = decoupled ? OrderedJson(decoupled->max) : nullptr;
    json["decoupled_min_lr"] = decoupled ? OrderedJson(decoupled->min) : nullptr;
    const auto& growing = schedule.weight_decay();
    json["start_weight_decay"] = growing ? OrderedJson(growing->start) : nullptr;
    json["end_weight_decay"] = growing ? OrderedJson(growing->end) : nullptr;
    json["weight_decay_incr_style"] = name_in(
        spec::weight_decay_styles, growing ? growing->style : spec::WeightDecayStyle::constant);
}

OrderedJson training_values(const RunConfig& config) {
    const spec::LearningRate& rate = config.schedule.learning_rate();
    const spec::ModelConfig& model = config.trainer.model;
    const DType weights = config.trainer.precision.weights;
    const bool wsd = rate.style == spec::DecayStyle::wsd;
    OrderedJson json = {
        {"train_samples", config.schedule.end().samples},
        {"global_batch_size", config.schedule.ramp().global_batch},
        {"rampup_batch_size", ramp_json(config.schedule.ramp())},
        {"step_batch_size_schedule", steps_json(config.schedule.ramp(), model.seq_length)},
        {"micro_batch_size", config.trainer.micro_batch},
        {"lr", rate.max},
        {"min_lr", rate.min},
        {"lr_decay_style", name_of(rate.style)},
        {"lr_warmup_init", rate.init},
        {"lr_warmup_samples", rate.warmup_samples},
        {"lr_decay_samples", rate.decay_samples},
        {"lr_decay_tokens", rate.decay_tokens},
        {"lr_wsd_decay_style", wsd ? OrderedJson(name_of(rate.anneal)) : OrderedJson()},
        {"lr_wsd_decay_samples", rate.anneal_samples},
        {"curriculum_learning_type", curriculum_json(config.schedule.curriculum())},
        {"skip_train_iteration_range", skip_json(config.skipped)},
        {"seed", config.trainer.seed},
        {"fp16", weights == DType::fp16},
        {"bf16", weights == DType::bf16}};
    add_rates(json, config.schedule);
    add_kernels(json, config.trainer);
    return json;
}

OrderedJson run_values(const RunConfig& config) {
    return {{"device", config.trainer.cuda ? "cuda" : "cpu"},
            {"allow_tf32", config.trainer.allow_tf32},
            {"autotune", config.trainer.autotune},
            {"tensor_comm_sms", config.trainer.tensor_comm_sms},
            {"threads", config.trainer.n_threads}};
}

// Returns the section of type Section in `config`; nullptr when RunConfig does not store it.
template <typename Section>
const Section* section_of(const RunConfig& config) {
    if constexpr (std::is_same_v<Section, config::ValidationFlags>) return &config.validation;
    if constexpr (std::is_same_v<Section, config::CheckpointFlags>) return &config.checkpoints;
    if constexpr (std::is_same_v<Section, config::LoggingFlags>) return &config.logging;
    if constexpr (std::is_same_v<Section, config::ActionFlags>) return &config.action;
    if constexpr (std::is_same_v<Section, config::StoppingFlags>) return &config.stopping;
    if constexpr (std::is_same_v<Section, data::DataPaths>) return &config.data.paths;
    if constexpr (std::is_same_v<Section, config::DataFlags>) return &config.data;
    if constexpr (std::is_same_v<Section, config::DocumentFlags>) return &config.trainer.documents;
    if constexpr (std::is_same_v<Section, config::RankCheckFlags>) return &config.rank_checks;
    if constexpr (std::is_same_v<Section, spec::DataParallelConfig>) {
        return &config.trainer.data_parallel;
    }
    if constexpr (std::is_same_v<Section, spec::AdamWConfig>) return &config.trainer.adamw;
    if constexpr (std::is_same_v<Section, spec::LossScaleConfig>) return &config.trainer.loss_scale;
    return nullptr;
}

// Returns all fields of `block` in the order of the tables.
OrderedJson block_json(const RunConfig& config, Block block, const OrderedJson& resolved) {
    OrderedJson json = OrderedJson::object();
    config::for_each_section([&]<typename S>(const config::Fields<S>& fields) {
        const bool scales_loss = config.trainer.precision.weights == DType::fp16;
        if (std::is_same_v<S, spec::LossScaleConfig> && !scales_loss) return;
        config::add_json(json, block, fields, section_of<S>(config), resolved);
    });
    return json;
}

OrderedJson memory_json(const cost::MemoryPlan& memory) {
    return {{"weights", memory.weights},         {"masters", memory.masters},
            {"gradients", memory.gradients},     {"optimizer", memory.optimizer},
            {"activations", memory.activations}, {"workspace", memory.workspace},
            {"total", memory.total()},           {"save_buffer", memory.save_buffer}};
}

}  // namespace

OrderedJson training_json(const RunConfig& config) {
    return block_json(config, Block::training, training_values(config));
}

OrderedJson to_json(const RunConfig& config) {
    OrderedJson json = {{"model", ckpt::to_json(config.trainer.model)}};
    const auto add = [&](Block block, const OrderedJson& resolved) {
        json[name_of(block)] = block_json(config, block, resolved);
    };
    add(Block::parallel, parallel_values(config));
    json.update(block_json(config, Block::run, run_values(config)));
    json["train_iterations"] = config.schedule.total_iterations();
    add(Block::training, training_values(config));
    add(Block::validation, {{"samples", config.validation_samples()}});
    add(Block::checkpoints, {});
    add(Block::stopping, {});
    add(Block::logging, {});
    json["memory_bytes"] = memory_json(memory_plan(config.trainer));
    json["command_line"] = config.command_line;
    return json;
}

}  // namespace lm::train
