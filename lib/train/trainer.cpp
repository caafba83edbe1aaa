// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "cost/nccl.hpp"
#include "model/positions.hpp"

namespace lm::train {

using device::Context;
using spec::PipelineAction;
using spec::PipelineOp;

namespace {

// Sets the weight of each token in the step's loss and gradient: mask / (unmasked tokens of the
// micro-batch * n_micro_batches), with the number of micro-batches of all replicas. So the step's
// loss is the mean over micro-batches of the means over their unmasked tokens, as in Megatron.
// --eod-mask-loss gives a mask [B, T] of 0 and 1; when it is empty, all tokens count. `weights` is
// [B, T].
void set_loss_weights(std::span<const float> mask, i64 n_micro_batches, std::span<float> weights) {
    const double unmasked = mask.empty() ? static_cast<double>(weights.size())
                                         : std::accumulate(mask.begin(), mask.end(), 0.0);
    const double scale = unmasked > 0 ? 1.0 / (unmasked * static_cast<double>(n_micro_batches)) : 0;
    for (size_t i = 0; i < weights.size(); ++i) {
        weights[i] = static_cast<float>((mask.empty() ? 1.0 : mask[i]) * scale);
    }
}

}  // namespace

// ---- a step -----------------------------------------------------------------------------------

StepResult Trainer::compute_gradients(BatchSource& batches, i64 n_micro_batches) {
    run_schedule(schedule_of(true, n_micro_batches), batches);

    enter("gradient reduction");
    Context context = this->context();
    // With overlap, most buckets were reduced during backward.
    state_.data_parallel().finish_reduce();
    state_.sum_tied_embedding();
    state_.add_gradient_squares(context, step_sum(model::gradient_sum_squares));
    const StepSums sums = global_step_sums();
    StepResult step{.loss = sums[model::loss_sum], .gradient_scale = scaler_.scale()};
    step.gradient_norm = std::sqrt(sums[model::gradient_sum_squares]) / step.gradient_scale;
    step.finite = std::isfinite(step.loss) && std::isfinite(step.gradient_norm);
    scaler_.update(!std::isfinite(step.gradient_norm));
    step.loss_scale = scaler_.scale();
    return step;
}

void Trainer::update(const StepResult& step, double lr) {
    enter("optimizer");
    Context context = this->context();
    const double clip = optim::clip_coefficient(step.gradient_norm, config_.adamw.clip_grad);
    state_.update(context, lr, clip / step.gradient_scale);
    // The next forward pass waits for each weight before it reads it.
    state_.data_parallel().start_gather();
}

double Trainer::evaluate(BatchSource& batches, i64 n_micro_batches) {
    run_schedule(schedule_of(false, n_micro_batches), batches);
    return global_step_sums()[model::loss_sum];
}

// Runs forward, and in training backward, of all micro-batches through this stage's chunks. Writes
// the gradients of this rank's samples, times the loss scale, and adds their loss to step_sums.
void Trainer::run_schedule(const StageSchedule& schedule, BatchSource& batches) {
    zero_step_sums();
    Context context = this->context();
    transfers_->begin(schedule.actions);
    for (const PipelineAction& action : schedule.actions) {
        model::GptChunk& chunk = chunks_[static_cast<size_t>(action.chunk)];
        const model::MicroBatch at = micro_batch_of(schedule, action);
        switch (action.op) {
            case PipelineOp::receive_forward:
                transfers_->receive_input(action);
                break;
            case PipelineOp::forward:
                transfers_->acquire_output(action);
                enter(at.training ? "forward" : "evaluation", action.micro_batch);
                reserve_sms(at.first && config_.data_parallel.overlap_param_gather);
                copy_to_device(next_batch(batches, action), chunk.slot(at.slot).inputs,
                               schedule.n_micro_batches);
                chunk.forward(context, at);
                if (chunk.has_head() && at.training) {
                    chunk.loss_and_gradient(context, at, scaler_.scale());
                } else if (chunk.has_head()) {
                    chunk.loss(context, at);
                }
                if (!at.training) transfers_->release_input(action);
                break;
            case PipelineOp::send_forward:
                transfers_->send_output(action);
                break;
            case PipelineOp::receive_backward:
                transfers_->receive_gradient(action);
                break;
            case PipelineOp::backward:
                enter("backward", action.micro_batch);
                reserve_sms(at.last && config_.data_parallel.overlap_grad_reduce);
                chunk.backward(context, at);
                break;
            case PipelineOp::send_backward:
                transfers_->send_gradient(action);
                break;
        }
        transfers_->post_receives();
    }
    transfers_->finish_sends();
}

// Returns the schedule of a step or an evaluation. Builds it when the number of micro-batches
// differs from the previous call, as with a batch ramp.
const Trainer::StageSchedule& Trainer::schedule_of(bool training, i64 n_micro_batches) {
    StageSchedule& schedule = training ? training_schedule_ : evaluation_schedule_;
    if (schedule.n_micro_batches == n_micro_batches) return schedule;
    const spec::PipelineShape shape{.n_stages = config_.parallel.pp,
                                    .n_chunks = config_.parallel.n_chunks,
                                    .n_micro_batches = n_micro_batches};
    if (training) spec::check_pipeline(shape);
    schedule = {.training = training,
                .n_micro_batches = n_micro_batches,
                .actions = training ? spec::pipeline_actions(shape, grid_.at.pp)
                                    : spec::pipeline_forward_actions(shape, grid_.at.pp)};
    return schedule;
}

model::MicroBatch Trainer::micro_batch_of(const StageSchedule& schedule,
                                          const PipelineAction& action) const {
    return {.slot = transfers_->slot_of(action.chunk, action.micro_batch),
            .training = schedule.training,
            .first = action.micro_batch == 0,
            .last = action.micro_batch + 1 == schedule.n_micro_batches};
}

// Returns the micro-batch of `action`. With several chunks on a stage, the micro-batches pass the
// chunks in rounds; a round has as many micro-batches as there are stages. The first chunk stores
// the batches of a round for the other chunks.
const data::Batch& Trainer::next_batch(BatchSource& batches, const PipelineAction& action) {
    if (round_.empty()) return batches.next();
    data::Batch& batch = round_[static_cast<size_t>(action.micro_batch) % round_.size()];
    if (action.chunk == 0) batch = batches.next();
    return batch;
}

// Copies the batch, with the loss weight of each token, to the device. The stages between the first
// and the last need neither tokens nor targets.
void Trainer::copy_to_device(const data::Batch& batch, const model::MicroBatchInputs& inputs,
                             i64 n_micro_batches) {
    device_.copy_from_host(inputs.sample_ids, batch.sample_ids.data());
    if (inputs.doc_start) device_.copy_from_host(inputs.doc_start, batch.document_starts.data());
    if (inputs.tokens) device_.copy_from_host(inputs.tokens, batch.tokens.data());
    if (inputs.positions && !batch.positions.empty()) {
        device_.copy_from_host(inputs.positions, batch.positions.data());
    }
    if (!inputs.targets) return;
    device_.copy_from_host(inputs.targets, batch.targets.data());
    set_loss_weights(batch.loss_mask, n_micro_batches * config_.parallel.dp, loss_weight_);
    device_.copy_from_host(inputs.loss_weight, loss_weight_.data());
}

// Reserves SMs for NCCL. The caller decides at fixed points of the step, not by the NCCL kernels
// that happen to run, so that every run chooses the same GEMM algorithms.
void Trainer::reserve_sms(bool collectives) {
    device_.reserve_sms(cost::nccl_blocks(config_.parallel, grid_.at.pp, collectives));
}

device::View Trainer::step_sum(model::StepSum which) const {
    return chunks_.front().scratch().step_sums.rows(which, which + 1);
}

void Trainer::zero_step_sums() {
    constexpr StepSums zeros{};
    device_.copy_from_host(chunks_.front().scratch().step_sums, zeros.data());
}

Trainer::StepSums Trainer::global_step_sums() {
    StepSums sums{};
    device_.copy_to_host(sums.data(), chunks_.front().scratch().step_sums);
    if (grid_.at.tp > 0)
        sums[model::loss_sum] = 0;  // all tensor ranks have the same loss: it is counted once
    grid_.world->all_reduce({sums.data(), DType::fp64, {model::step_sum_count}});
    return sums;
}

// ---- construction -----------------------------------------------------------------------------

Trainer Trainer::allocate(const TrainerConfig& config, device::Device& device,
                          parallel::Grid grid) {
    TrainingMemory memory = allocate_memory(config, device, grid.at.tp, grid.at.pp);
    return Trainer(config, device, std::move(grid), std::move(memory));
}

Trainer::Trainer(const TrainerConfig& config, device::Device& device, parallel::Grid grid,
                 TrainingMemory memory)
    : config_(config),
      device_(device),
      grid_(std::move(grid)),
      memory_(std::move(memory)),
      state_(config, device, grid_, memory_),
      workspace_(memory_.activations.view(memory_.plan.activations, DType::uint8,
                                          {memory_.plan.workspace})),
      overlap_(config.model, state_.params().layout(), state_.data_parallel()) {
    LM_CHECK(grid_.tensor->size() == config.parallel.tp &&
                 grid_.pipeline->size() == config.parallel.pp &&
                 grid_.data->size() == config.parallel.dp,
             "expected tp={} pp={} dp={}, got tp={} pp={} dp={}", config.parallel.tp,
             config.parallel.pp, config.parallel.dp, grid_.tensor->size(), grid_.pipeline->size(),
             grid_.data->size());
    if (config.precision.weights == DType::fp16) scaler_ = optim::LossScaler(config.loss_scale);
    if (config.parallel.n_chunks > 1) round_.resize(static_cast<size_t>(config.parallel.pp));
    set_seq_length(config.model.seq_length);
}

void Trainer::warm_up() {
    chunks_.front().warm_up();
    state_.warm_up();
}

void Trainer::initialize() {
    Context context = this->context();
    state_.initialize(context);
}

void Trainer::load(const ckpt::Checkpoint& checkpoint, bool with_optimizer) {
    state_.load(checkpoint, with_optimizer);
}

cost::StepShape Trainer::step_shape() const {
    return {.micro_batch = config_.micro_batch,
            .seq_length = seq_length_,
            .n_micro_batches = config_.n_micro_batches,
            .compute = config_.precision.weights,
            .logits_bytes = config_.processor().logits_bytes()};
}

void Trainer::set_seq_length(i64 seq_length) {
    if (seq_length == seq_length_) return;
    LM_CHECK(seq_length > 0 && seq_length <= config_.model.seq_length,
             "expected a sequence length of 1 to {}, got {}", config_.model.seq_length, seq_length);
    seq_length_ = seq_length;
    loss_weight_.resize(static_cast<size_t>(step_shape().rows()));
    build_chunks();
    write_positions();
    build_transfers();
}

void Trainer::build_chunks() {
    chunks_.clear();
    const cost::StepShape step = step_shape();
    const cost::StageShape stage =
        cost::stage_shape(config_.model, config_.parallel, step, grid_.at.pp, grid_.at.tp);
    std::vector<model::ChunkActivations> activations = model::bind_activations(
        cost::plan_activations(config_.model, config_.parallel, step, stage), memory_.activations);
    for (i64 chunk = 0; chunk < config_.parallel.n_chunks; ++chunk) {
        model::ChunkActivations& own = activations[static_cast<size_t>(chunk)];
        for (model::MicroBatchActivations& slot : own.slots) {
            if (!config_.documents.reset_attention_mask) slot.inputs.doc_start = {};
        }
        const model::ChunkSetup setup{
            .config = config_.model,
            .parallel = config_.parallel,
            .part = spec::model_part(config_.model, config_.parallel, grid_.at.pp, chunk),
            .seed = config_.seed,
            .tensor = grid_.tensor.get(),
            .hooks = &overlap_};
        chunks_.emplace_back(setup, state_.params().bind(state_.weights(), chunk),
                             state_.params().bind(state_.gradients(), chunk), std::move(own));
    }
}

// Writes the constants of attention, and positions 0 to T - 1 for batches without positions.
void Trainer::write_positions() {
    const spec::TensorShare share =
        spec::tensor_share(config_.model, config_.parallel, grid_.at.tp);
    model::write_position_constants(config_.model, share.first_head, device_,
                                    chunks_.front().scratch());
    std::vector<i32> positions(static_cast<size_t>(step_shape().rows()));
    for (size_t row = 0; row < positions.size(); ++row) {
        positions[row] = static_cast<i32>(static_cast<i64>(row) % seq_length_);
    }
    for (const model::GptChunk& chunk : chunks_) {
        for (int slot = 0; slot < chunk.n_slots(); ++slot) {
            const device::View& view = chunk.slot(slot).inputs.positions;
            if (view) device_.copy_from_host(view, positions.data());
        }
    }
}

void Trainer::build_transfers() {
    std::vector<std::vector<parallel::StageBuffers>> buffers;
    for (const model::GptChunk& chunk : chunks_) {
        buffers.emplace_back();
        for (int slot = 0; slot < chunk.n_slots(); ++slot) {
            buffers.back().push_back({chunk.stage_input(slot), chunk.stage_output(slot)});
        }
    }
    transfers_ = std::make_unique<parallel::StageTransfers>(grid_, buffers);
}

// ---- logits -----------------------------------------------------------------------------------

void Trainer::logits(const data::Batch& batch, const VisitRow& visit) {
    LM_CHECK(grid_.world->size() == 1, "expected one rank with the whole model, got {}",
             grid_.world->size());
    Context context = this->context();
    model::GptChunk& chunk = chunks_.front();
    copy_to_device(batch, chunk.slot(0).inputs, 1);
    chunk.forward(context, {.training = false});
    const device::View logits = chunk.scratch().logits;  // memory for one chunk of rows
    const i64 n_rows = chunk.slot(0).final_norm.y[0];
    std::vector<float> host(static_cast<size_t>(logits.numel()));
    std::vector<u16> bits(is_half(logits.dtype) ? host.size() : 0);
    for (i64 begin = 0; begin < n_rows; begin += logits[0]) {
        const i64 end = std::min(begin + logits[0], n_rows);
        const device::View rows = logits.rows(0, end - begin);
        chunk.logits(context, 0, begin, end, rows);
        if (bits.empty()) {
            device_.copy_to_host(host.data(), rows);
        } else {
            device_.copy_to_host(bits.data(), rows);
            std::ranges::transform(bits, host.begin(),
                                   rows.dtype == DType::bf16 ? fp32_from_bf16 : fp32_from_fp16);
        }
        for (i64 row = begin; row < end; ++row) {
            const auto first = static_cast<size_t>((row - begin) * logits[1]);
            visit(row,
                  std::span(host).subspan(first, static_cast<size_t>(config_.model.vocab_size)));
        }
    }
}

}  // namespace lm::train
