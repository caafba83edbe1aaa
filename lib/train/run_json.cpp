// SPDX-License-Identifier: Apache-2.0
// The configuration of a run as JSON: for --print-config, and what a checkpoint remembers of it.
#include "train/rules.hpp"
#include "train/run_config.hpp"

namespace lm::train {
namespace {

io::OrderedJson ramp_json(const spec::BatchRamp& ramp) {
    if (ramp.start == 0) return nullptr;
    return {ramp.start, ramp.increment, ramp.samples};
}

io::OrderedJson skip_json(const OutputFlags& output) {
    io::OrderedJson ranges = io::OrderedJson::array();
    for (const IterationRange& range : parse_skip_ranges(output.skip_ranges)) {
        ranges.push_back(fmt::format("{}-{}", range.first, range.last));
    }
    return ranges;
}

io::OrderedJson curriculum_json(const std::optional<optim::Curriculum>& curriculum) {
    if (!curriculum) return nullptr;
    io::OrderedJson json = {{"schedule", name_of(curriculum->kind)}};
    if (curriculum->kind == optim::Curriculum::Kind::fixed_discrete) {
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

// Only fp16 scales the loss.
void add_loss_scale(io::OrderedJson& json, const optim::LossScaleConfig& scale) {
    json["loss_scale"] = scale.fixed ? io::OrderedJson(*scale.fixed) : io::OrderedJson();
    json["initial_loss_scale"] = scale.initial;
    json["min_loss_scale"] = scale.min;
    json["loss_scale_window"] = scale.window;
    json["hysteresis"] = scale.hysteresis;
}

io::OrderedJson or_null(const auto& value) {
    return value ? io::OrderedJson(*value) : io::OrderedJson();
}

std::string_view name_of(spec::Recompute::Granularity granularity) {
    using enum spec::Recompute::Granularity;
    return granularity == full ? "full" : granularity == selective ? "selective" : "none";
}

std::string_view name_of(spec::PipelineBalance balance) {
    using enum spec::PipelineBalance;
    if (balance == layers_and_embedding) return "type:transformer|embedding";
    return balance == parameters ? "parameters" : "uniform";
}

io::OrderedJson parallel_json(const RunConfig& config) {
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    const spec::Recompute& recompute = parallel.recompute;
    const bool full = recompute.granularity == spec::Recompute::Granularity::full;
    const bool block = recompute.method == spec::Recompute::Method::block;
    return {{"world_size", parallel.tp * parallel.pp * parallel.dp},
            {"tensor_model_parallel_size", parallel.tp},
            {"pipeline_model_parallel_size", parallel.pp},
            {"data_parallel_size", parallel.dp},
            {"virtual_pipeline_chunks", parallel.n_chunks},
            {"pp_partition_method", name_of(parallel.balance)},
            {"sequence_parallel", parallel.sequence_parallel},
            {"padded_vocab_size", spec::padded_vocab(config.trainer.model, parallel)},
            {"zero_stage", parallel.zero_stage},
            {"overlap_grad_reduce", config.trainer.data_parallel.overlap_grad_reduce},
            {"overlap_param_gather", config.trainer.data_parallel.overlap_param_gather},
            {"ddp_bucket_size", config.trainer.data_parallel.bucket_elements},
            {"check_replicas", or_null(config.check_replicas)},
            {"recompute_granularity", name_of(recompute.granularity)},
            {"recompute_method", full ? io::OrderedJson(block ? "block" : "uniform") : nullptr},
            {"recompute_num_layers", full ? io::OrderedJson(recompute.n_layers) : nullptr}};
}

io::OrderedJson validation_json(const RunConfig& config) {
    return {{"eval_interval", config.output.eval_interval},
            {"eval_iters", config.output.eval_iters},
            {"samples", config.validation_samples},
            {"valid_data_path", config.data.valid_path},
            {"test_data_path", config.data.test_path},
            {"valid_weighted_split_paths", config.data.valid_groups},
            {"test_weighted_split_paths", config.data.test_groups}};
}

io::OrderedJson checkpoints_json(const OutputFlags& output) {
    return {{"save", output.save},
            {"load", output.load},
            {"fresh", output.fresh},
            {"finetune", output.finetune},
            {"no_load_optim", output.no_load_optim},
            {"override_schedule", output.override_schedule},
            {"override_data", output.override_data},
            {"override_tokenizer", output.override_tokenizer},
            {"save_interval", or_null(output.save_interval)},
            {"save_schedule", output.save_schedule}};
}

io::OrderedJson stopping_json(const OutputFlags& output) {
    return {{"exit_interval", or_null(output.exit_interval)},
            {"exit_iteration", or_null(output.exit_iteration)},
            {"exit_samples", or_null(output.exit_samples)},
            {"exit_duration_in_mins", or_null(output.exit_duration_min)},
            {"kill_switch_path", output.kill_switch},
            {"save_switch_path", output.save_switch}};
}

io::OrderedJson logging_json(const OutputFlags& output) {
    return {{"log_interval", output.log_interval},
            {"log_file", output.log_file},
            {"log_json", output.log_json},
            {"tensorboard_dir", output.tensorboard_dir},
            {"tensorboard_queue_size", output.tensorboard_queue_size},
            {"log_timers_to_tensorboard", output.log_timers},
            {"log_batch_size_to_tensorboard", output.log_batch_size},
            {"log_validation_ppl_to_tensorboard", output.log_validation_ppl},
            {"benchmark", output.benchmark}};
}

void add_attention(io::OrderedJson& json, spec::GpuAttention attention) {
    using enum spec::GpuAttention;
    json["attention_backend"] = attention == flash ? "flash" : "fused";
    if (attention != flash) json["deterministic_mode"] = attention == cudnn_deterministic;
}

io::OrderedJson memory_json(const cost::MemoryPlan& memory) {
    return {{"weights", memory.weights},
            {"masters", memory.masters},
            {"gradients", memory.gradients},
            {"optimizer", memory.optimizer},
            {"activations", memory.activations},
            {"workspace", memory.workspace},
            {"total", memory.total()}};
}

}  // namespace

io::OrderedJson schedule_json(const RunConfig& config) {
    const optim::LearningRate& rate = config.schedule.learning_rate();
    const optim::AdamWConfig& adamw = config.trainer.adamw;
    const bool fp16 = config.trainer.precision.weights == DType::fp16;
    const bool wsd = rate.style == optim::DecayStyle::wsd;
    io::OrderedJson json = {
        {"train_samples", config.schedule.end().samples},
        {"global_batch_size", config.schedule.ramp().global_batch},
        {"rampup_batch_size", ramp_json(config.schedule.ramp())},
        {"micro_batch_size", config.trainer.micro_batch},
        {"seq_length", config.trainer.model.seq_length},
        {"lr", rate.max},
        {"min_lr", rate.min},
        {"lr_decay_style", name_of(rate.style)},
        {"lr_warmup_init", rate.init},
        {"lr_warmup_samples", rate.warmup_samples},
        {"lr_decay_samples", rate.decay_samples},
        {"lr_decay_tokens", rate.decay_tokens},
        {"lr_wsd_decay_style", wsd ? io::OrderedJson(name_of(rate.anneal)) : io::OrderedJson()},
        {"lr_wsd_decay_samples", rate.anneal_samples},
        {"curriculum_learning_type", curriculum_json(config.schedule.curriculum())},
        {"skip_train_iteration_range", skip_json(config.output)},
        {"adam_beta1", adamw.beta1},
        {"adam_beta2", adamw.beta2},
        {"adam_eps", adamw.eps},
        {"weight_decay", adamw.weight_decay},
        {"clip_grad", adamw.clip_grad},
        {"attention_dropout", config.trainer.model.attention_dropout},
        {"hidden_dropout", config.trainer.model.hidden_dropout},
        {"seed", config.trainer.seed},
        {"data_path", config.data.data_path},
        {"train_data_path", config.data.train_path},
        {"train_weighted_split_paths", config.data.train_groups},
        {"data_order", name_of(config.data.order)},
        {"split", config.data.split},
        {"reset_position_ids", config.batch.reset_position_ids},
        {"reset_attention_mask", config.batch.reset_attention_mask},
        {"eod_mask_loss", config.batch.eod_mask_loss},
        {"fp16", fp16},
        {"bf16", config.trainer.precision.weights == DType::bf16}};
    if (fp16) add_loss_scale(json, config.trainer.loss_scale);
    if (config.trainer.cuda) add_attention(json, config.trainer.attention);
    return json;
}

io::OrderedJson to_json(const RunConfig& config) {
    return {{"model", ckpt::to_json(config.trainer.model)},
            {"parallel", parallel_json(config)},
            {"micro_batch_size", config.trainer.micro_batch},
            {"device", config.trainer.cuda ? "cuda" : "cpu"},
            {"allow_tf32", config.trainer.allow_tf32},
            {"autotune", config.trainer.autotune},
            {"threads", config.trainer.n_threads},
            {"train_iterations", config.schedule.total_iterations()},
            {"schedule", schedule_json(config)},
            {"validation", validation_json(config)},
            {"checkpoints", checkpoints_json(config.output)},
            {"stopping", stopping_json(config.output)},
            {"logging", logging_json(config.output)},
            {"memory_bytes", memory_json(memory_plan(config.trainer))},
            {"command_line", config.command_line}};
}

}  // namespace lm::train
