// SPDX-License-Identifier: Apache-2.0
#include "train/step/trainer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.hpp"
#include "cost/nccl.hpp"
#include "model/positions.hpp"

namespace lm::train {

using device::Context;
using spec::PipelineAction;
using spec::PipelineOp;

// ---- a step -----------------------------------------------------------------------------------

std::optional<StepResult> Trainer::compute_gradients(BatchSource& batches, i64 n_micro_batches,
                                                     const MustEnd& must_end) {
    if (!run_schedule(schedule_of(true, n_micro_batches), batches, must_end)) return std::nullopt;

    const PhaseScope phase = enter(StepPhase::reduction, "gradient reduction");
    Context context = this->context();
    // With overlap, most buckets were already reduced during the backward passes.
    state_.data_parallel().finish_reduce();
    state_.sum_tied_embedding();
    state_.add_gradient_squares(context, step_sums());
    const StepSums sums = global_step_sums();
    StepResult step{.loss = sums.loss.mean(), .gradient_scale = scaler_.scale()};
    if (config_.documents.per_token_loss) step.gradient_scale *= std::max(1.0, sums.loss.tokens);
    step.gradient_norm = std::sqrt(sums.gradient_squares) / step.gradient_scale;
    step.finite = std::isfinite(step.loss) && std::isfinite(step.gradient_norm);
    scaler_.update(!std::isfinite(step.gradient_norm));
    step.loss_scale = scaler_.scale();
    return step;
}

void Trainer::update(const StepResult& step, const spec::UpdateRates& rates) {
    const PhaseScope phase = enter(StepPhase::optimizer, "optimizer");
    Context context = this->context();
    const double clip = optim::clip_coefficient(step.gradient_norm, config_.adamw.clip_grad);
    state_.update(context, rates, clip / step.gradient_scale);
    const PhaseScope gather(phases_, StepPhase::reduction);
    // The next forward pass waits for the gather of each weight before it reads the weight.
    state_.data_parallel().start_gather();
}

std::vector<double> Trainer::gradient_norms(const StepResult& step) {
    Context context = this->context();
    std::vector<double> norms = state_.gradient_squares_by_unit(context, step_sums());
    // Squares can be added over ranks, norms cannot.
    grid_.world->all_reduce({norms.data(), DType::fp64, {static_cast<i64>(norms.size())}});
    for (double& norm : norms) norm = std::sqrt(norm) / step.gradient_scale;
    return norms;
}

double Trainer::params_norm() {
    Context context = this->context();
    return std::sqrt(sum_over_ranks(state_.weight_squares(context, step_sums())));
}

double Trainer::num_zeros() {
    return sum_over_ranks(static_cast<double>(state_.zero_gradients()));
}

double Trainer::sum_over_ranks(double value) {
    grid_.world->all_reduce({&value, DType::fp64, {1}});
    return value;
}

std::optional<LossSum> Trainer::evaluate(BatchSource& batches, i64 n_micro_batches,
                                         const MustEnd& must_end) {
    if (!run_schedule(schedule_of(false, n_micro_batches), batches, must_end)) return std::nullopt;
    return global_step_sums().loss;
}

// Runs the forward passes of all micro-batches through this stage's chunks; in training also the
// backward passes. Writes the gradients of this rank's samples, multiplied by the loss scale, and
// the sum of their losses to step_sums(). Returns false when `must_end` has ended it.
bool Trainer::run_schedule(const StageSchedule& schedule, BatchSource& batches,
                           const MustEnd& must_end) {
    zero_step_sums();
    const PhaseScope phase(phases_, schedule.phase(StepPhase::transfer));
    transfers_->begin(schedule.actions);
    for (const PipelineAction& action : schedule.actions) {
        switch (action.op) {
            case PipelineOp::receive_forward:
                transfers_->receive_input(action);
                break;
            case PipelineOp::forward:
                transfers_->acquire_output(action);
                if (!load_batch(schedule, action, batches, must_end)) return false;
                forward(schedule, action);
                if (chunk_of(action).has_head()) loss(schedule, action);
                // In training, the backward pass still needs the input, and releases it afterwards.
                if (!schedule.training) transfers_->release_input(action);
                break;
            case PipelineOp::send_forward:
                transfers_->send_output(action);
                break;
            case PipelineOp::receive_backward:
                transfers_->receive_gradient(action);
                break;
            case PipelineOp::backward:
                backward(schedule, action);
                break;
            case PipelineOp::send_backward:
                transfers_->send_gradient(action);
                break;
        }
        transfers_->post_receives();
    }
    transfers_->finish_sends();
    return true;
}

// Copies the fields of `batch` for which `inputs` has a view. Stages in the middle need neither
// tokens nor targets.
void Trainer::copy_batch(const data::Batch& batch, const model::MicroBatchInputs& inputs) {
    const auto copy = [this](const auto& from, const device::View& to) {
        if (to && !from.empty()) device_.copy_from_host(to, from.data());
    };
    copy(batch.sample_ids, inputs.sample_ids);
    model::copy_starts(device_, inputs.doc_start, batch.document_starts, windows_);
    copy(batch.tokens, inputs.tokens);
    copy(batch.token_order, inputs.token_order);
    copy(batch.positions, inputs.positions);
    copy(batch.position_order, inputs.position_order);
    copy(batch.targets, inputs.targets);
    copy(batch.loss_mask.empty() ? no_mask_ : batch.loss_mask, inputs.loss_mask);
}

// Returns false when `must_end` has ended the step.
bool Trainer::load_batch(const StageSchedule& schedule, const PipelineAction& action,
                         BatchSource& batches, const MustEnd& must_end) {
    const PhaseScope phase = enter(schedule.phase(StepPhase::data), "data", action.micro_batch);
    const model::MicroBatch at = micro_batch_of(schedule, action);
    const data::Batch* const next = next_batch(batches, action, must_end);
    if (next == nullptr) return false;
    const data::Batch& batch = *next;
    const model::MicroBatchInputs& inputs = chunk_of(action).slot(at.slot).inputs;
    LM_CHECK(!inputs.token_order || batch.token_order.size() == batch.tokens.size(),
             "expected the order of {} tokens, got {}", batch.tokens.size(),
             batch.token_order.size());
    copy_batch(batch, inputs);
    unmasked_ = static_cast<double>(batch.n_unmasked());
    probe_.begin_forward(chunk_of(action), at, action.micro_batch, batch.sample_ids);
    return true;
}

void Trainer::forward(const StageSchedule& schedule, const PipelineAction& action) {
    const PhaseScope phase =
        enter(schedule.phase(StepPhase::forward), schedule.training ? "forward" : "evaluation",
              action.micro_batch);
    const model::MicroBatch at = micro_batch_of(schedule, action);
    reserve_sms(at.first && config_.data_parallel.overlap_param_gather);
    Context context = this->context();
    chunk_of(action).forward(context, at);
    probe_.end_forward();
}

// Computes the loss; in training also the gradient of the chunk's output.
void Trainer::loss(const StageSchedule& schedule, const PipelineAction& action) {
    const PhaseScope phase(phases_, schedule.phase(StepPhase::forward));
    const model::MicroBatch at = micro_batch_of(schedule, action);
    Context context = this->context();
    if (schedule.training) {
        chunk_of(action).loss_and_gradient(context, at, scaler_.scale() * token_weight(schedule));
    } else {
        chunk_of(action).loss(context, at);
    }
    loss_tokens_ += unmasked_;
    probe_.after_loss(step_sums().rows(model::loss_sum, model::loss_sum + 1), loss_tokens_,
                      action.micro_batch);
}

// Returns the weight of an unmasked token's loss in the gradient. As in Megatron, the gradient is
// that of a mean over micro-batches: each micro-batch counts with the mean loss of its unmasked
// tokens. With --calculate-per-token-loss the weight is 1, and update() divides the gradient by the
// number of unmasked tokens, which is known only at the end of the step.
double Trainer::token_weight(const StageSchedule& schedule) const {
    if (config_.documents.per_token_loss) return 1;
    if (unmasked_ == 0) return 0;
    const i64 n_micro_batches = schedule.n_micro_batches * config_.parallel.dp;
    return static_cast<float>(1 / (unmasked_ * static_cast<double>(n_micro_batches)));
}

void Trainer::backward(const StageSchedule& schedule, const PipelineAction& action) {
    const PhaseScope phase = enter(StepPhase::backward, "backward", action.micro_batch);
    const model::MicroBatch at = micro_batch_of(schedule, action);
    reserve_sms(at.last && config_.data_parallel.overlap_grad_reduce);
    Context context = this->context();
    chunk_of(action).backward(context, at);
    probe_.after_micro_batch(action.micro_batch);
}

// Returns the schedule of a step or an evaluation. Builds a new schedule when the number of
// micro-batches differs from the previous call, as with a batch ramp.
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

// Returns the micro-batch of `action`, or nullptr when `must_end` has ended the step. If a stage
// has several chunks, the micro-batches pass through the chunks in rounds. The number of
// micro-batches in a round is the number of stages. The first chunk stores the batches of a round
// for the other chunks.
const data::Batch* Trainer::next_batch(BatchSource& batches, const PipelineAction& action,
                                       const MustEnd& must_end) {
    const bool reads = round_.empty() || action.chunk == 0;
    if (reads && must_end && must_end()) return nullptr;
    if (round_.empty()) return &batches.next();
    data::Batch& batch = round_[static_cast<size_t>(action.micro_batch) % round_.size()];
    if (reads) batch = batches.next();
    return &batch;
}

// Reserves SMs for NCCL at fixed points of the step, even if no NCCL kernel is running, so that
// every run chooses the same GEMM algorithms.
void Trainer::reserve_sms(bool collectives) {
    device_.reserve_sms(cost::nccl_blocks(config_.parallel, grid_.at.pp, collectives));
}

// The chunks of a stage share one scratch memory, so the first chunk's sums are the stage's sums.
device::View Trainer::step_sums() const {
    return chunks_.front().scratch().step_sums;
}

void Trainer::zero_step_sums() {
    device_.copy_from_host(step_sums(), std::array<double, model::step_sum_count>{}.data());
    loss_tokens_ = 0;
}

Trainer::StepSums Trainer::global_step_sums() {
    std::array<double, model::step_sum_count> own{};
    device_.copy_to_host(own.data(), step_sums());
    // All tensor ranks have the same loss, so only tensor rank 0 counts it.
    const bool counts = grid_.at.tp == 0;
    // 0 * x is NaN if x is not finite, so a copy of a gradient that is not finite on this rank
    // makes the norm NaN. A finite copy adds 0.
    const StepSums local{
        .loss = counts ? LossSum{own[model::loss_sum], loss_tokens_} : LossSum{},
        .gradient_squares = own[model::gradient_sum_squares] + 0 * own[model::copies_sum_squares]};
    local_loss_ = local.loss.mean();
    auto sums = std::bit_cast<std::array<double, 3>>(local);
    grid_.world->all_reduce({sums.data(), DType::fp64, {3}});
    return std::bit_cast<StepSums>(sums);
}

// ---- construction -----------------------------------------------------------------------------

std::unique_ptr<Trainer> Trainer::allocate(const TrainerConfig& config, device::Device& device,
                                           parallel::Grid grid) {
    TrainingMemory memory = allocate_memory(config, device, grid.at.tp, grid.at.pp);
    std::unique_ptr<Trainer> trainer(
        new Trainer(config, device, std::move(grid), std::move(memory)));
    trainer->set_seq_length(config.model.seq_length);
    return trainer;
}

Trainer::Trainer(const TrainerConfig& config, device::Device& device, parallel::Grid grid,
                 TrainingMemory memory)
    : config_(config),
      windows_(spec::windows(config.model)),
      device_(device),
      grid_(std::move(grid)),
      memory_(std::move(memory)),
      state_(config, device, grid_, memory_),
      workspace_(memory_.activations.view(memory_.plan.activations, DType::uint8,
                                          {memory_.plan.workspace})),
      overlap_(config.model, state_.params().layout(), state_.data_parallel()),
      probe_(overlap_, device, state_.params(), state_.gradients()) {
    LM_CHECK(grid_.tensor->size() == config.parallel.tp &&
                 grid_.pipeline->size() == config.parallel.pp &&
                 grid_.data->size() == config.parallel.dp,
             "expected tp={} pp={} dp={}, got tp={} pp={} dp={}", config.parallel.tp,
             config.parallel.pp, config.parallel.dp, grid_.tensor->size(), grid_.pipeline->size(),
             grid_.data->size());
    // bf16 has the exponents of fp32, so only fp16 gradients underflow without a loss scale.
    if (config.precision.weights == DType::fp16) scaler_ = optim::LossScaler(config.loss_scale);
    if (config.parallel.n_chunks > 1) round_.resize(static_cast<size_t>(config.parallel.pp));
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
            .logits_bytes = config_.processor().logits_bytes(),
            .cuda = config_.cuda};
}

void Trainer::set_seq_length(i64 seq_length) {
    if (seq_length == seq_length_) return;
    LM_CHECK(seq_length > 0 && seq_length <= config_.model.seq_length,
             "expected a sequence length of 1 to {}, got {}", config_.model.seq_length, seq_length);
    seq_length_ = seq_length;
    no_mask_.assign(static_cast<size_t>(step_shape().rows()), 1.0F);
    // A new length changes the views of the chunks. build_chunks() makes the new views, which
    // write_positions() and build_transfers() read.
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
            // Without document starts, a query sees all keys of its sample up to itself.
            if (!config_.has_document_starts()) slot.inputs.doc_start = {};
        }
        const model::ChunkSetup setup{
            .config = config_.model,
            .parallel = config_.parallel,
            .part = spec::model_part(config_.model, config_.parallel, grid_.at.pp, chunk),
            .tensor_comm_sms = config_.tensor_comm_sms,
            .seed = config_.seed,
            .tensor = grid_.tensor.get(),
            .hooks = &probe_};
        chunks_.emplace_back(setup, state_.params().bind(state_.weights(), chunk),
                             state_.params().bind(state_.gradients(), chunk), std::move(own));
    }
}

// Writes the constants of attention, and positions for batches without positions.
void Trainer::write_positions() {
    model::write_position_constants(config_.model, device_, chunks_.front().scratch());
    for (const model::GptChunk& chunk : chunks_) {
        for (int slot = 0; slot < chunk.n_slots(); ++slot) {
            model::write_positions(device_, chunk.slot(slot).inputs, windows_);
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
    copy_batch(batch, chunk.slot(0).inputs);
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
            // A row of logits ends with the padding of the vocabulary, which `visit` does not get.
            visit(row,
                  std::span(host).subspan(first, static_cast<size_t>(config_.model.vocab_size)));
        }
    }
}

}  // namespace lm::train
