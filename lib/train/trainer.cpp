// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "model/init.hpp"

namespace lm::train {

using device::Context;

spec::MemoryPlan memory_plan(const TrainerConfig& config) {
    return spec::plan_memory(config.model, config.parallel,
                             {config.micro_batch, config.model.seq_length}, {}, config.n_threads, 0,
                             0);
}

Trainer::Trainer(const TrainerConfig& config, device::Device& device)
    : config_(config),
      device_(device),
      plan_(memory_plan(config)),
      map_(config.model, config.parallel, 0, 0),
      weight_buffer_(device.allocate(plan_.weights, "weights")),
      gradient_buffer_(device.allocate(plan_.gradients, "gradients")),
      optimizer_buffer_(device.allocate(plan_.optimizer, "optimizer state")),
      activation_buffer_(device.allocate(plan_.activations + plan_.workspace, "activations")) {
    const Shape flat{map_.layout().n_elements};
    weights_ = weight_buffer_.view(DType::fp32, flat);
    gradients_ = gradient_buffer_.view(DType::fp32, flat);
    exp_avg_ = optimizer_buffer_.view(DType::fp32, flat);
    exp_avg_sq_ = optimizer_buffer_.view(exp_avg_.bytes(), DType::fp32, flat);
    workspace_ = activation_buffer_.view(plan_.activations, DType::uint8, {plan_.workspace});
    set_seq_length(config.model.seq_length);
    optimizer_ = std::make_unique<optim::AdamWOptimizer>(config.adamw, map_, weights_, weights_,
                                                         gradients_, exp_avg_, exp_avg_sq_);
}

void Trainer::set_seq_length(i64 seq_length) {
    if (seq_length == seq_length_) return;
    LM_CHECK(seq_length > 0 && seq_length <= config_.model.seq_length, "a sequence too long");
    seq_length_ = seq_length;
    const model::ChunkSetup setup{.config = config_.model,
                                  .parallel = config_.parallel,
                                  .part = spec::model_part(config_.model, config_.parallel, 0),
                                  .seed = config_.seed};
    gpt_ = std::make_unique<model::Gpt>(setup, map_.bind(weights_), map_.bind(gradients_),
                                        place_activations());
    loss_weight_.resize(static_cast<size_t>(config_.micro_batch * seq_length));
}

model::ChunkActivations Trainer::place_activations() {
    const spec::StepShape step{config_.micro_batch, seq_length_};
    model::ChunkActivations activations =
        model::bind_activations(
            spec::plan_activations(config_.model, config_.parallel, step,
                                   spec::stage_shape(config_.model, config_.parallel, step, 0)),
            activation_buffer_)
            .front();
    model::MicroBatchActivations& act = activations.slots.front();
    std::vector<i32> positions(static_cast<size_t>(step.rows()));
    for (i64 row = 0; row < step.rows(); ++row) {
        positions[static_cast<size_t>(row)] = static_cast<i32>(row % step.seq_length);
    }
    device_.copy_from_host(act.positions, positions.data());
    if (!config_.document_attention) act.doc_start = {};
    return activations;
}

void Trainer::initialize() {
    ThreadPool pool(config_.n_threads);
    model::initialize_weights(map_, device_, pool, config_.seed, weights_);
}

StepResult Trainer::step(const NextBatch& next, i64 n_micro_batches, double lr) {
    Context context = this->context();
    clear_step_sums();
    for (i64 i = 0; i < n_micro_batches; ++i) {
        const model::MicroBatch micro_batch{.first = i == 0, .last = i + 1 == n_micro_batches};
        copy_in(next(), n_micro_batches);
        gpt_->forward(context, micro_batch);
        gpt_->loss(context, micro_batch, 1.0);
        gpt_->backward(context, micro_batch);
    }
    device::sum_squares(context, {.x = gradients_, .out = step_sum(model::gradient_sum_squares)});
    const auto sums = read_step_sums();
    StepResult result{.loss = sums[model::loss_sum],
                      .gradient_norm = std::sqrt(sums[model::gradient_sum_squares])};
    result.updated = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
    if (!result.updated) return result;
    ++optimizer_step_;
    const double clip = optim::clip_coefficient(result.gradient_norm, config_.adamw.clip_grad);
    optimizer_->step(context, optimizer_step_, lr, clip);
    return result;
}

double Trainer::evaluate(const NextBatch& next, i64 n_micro_batches) {
    Context context = this->context();
    clear_step_sums();
    for (i64 i = 0; i < n_micro_batches; ++i) {
        copy_in(next(), n_micro_batches);
        gpt_->forward(context, {.training = false});
        gpt_->loss(context, {.training = false}, 1.0);
    }
    return read_step_sums()[model::loss_sum];
}

void Trainer::logits(const data::Batch& batch, const RowsOfLogits& take) {
    Context context = this->context();
    copy_in(batch, 1);
    gpt_->forward(context, {.training = false});
    const device::View chunk = gpt_->shared().logits;
    const i64 n_rows = gpt_->slot(0).final_norm[0];
    std::vector<float> host(static_cast<size_t>(chunk.numel()));
    for (i64 begin = 0; begin < n_rows; begin += chunk[0]) {
        const i64 end = std::min(begin + chunk[0], n_rows);
        const device::View rows = chunk.rows(0, end - begin);
        gpt_->logits(context, 0, begin, end, rows);
        device_.copy_to_host(host.data(), rows);
        for (i64 row = begin; row < end; ++row) {
            const auto first = static_cast<size_t>((row - begin) * chunk[1]);
            take(row,
                 std::span(host).subspan(first, static_cast<size_t>(config_.model.vocab_size)));
        }
    }
}

std::vector<ckpt::Piece> Trainer::state() const {
    std::vector<ckpt::Piece> pieces;
    const auto add = [&](ckpt::Kind kind, const device::View& flat) {
        const auto more = ckpt::pieces_of(map_.layout(), kind, flat.dtype, flat.data);
        pieces.insert(pieces.end(), more.begin(), more.end());
    };
    add(ckpt::Kind::weight, weights_);
    add(ckpt::Kind::exp_avg, exp_avg_);
    add(ckpt::Kind::exp_avg_sq, exp_avg_sq_);
    return pieces;
}

void Trainer::load(const ckpt::Checkpoint& checkpoint, bool with_optimizer) {
    const auto read = [&](ckpt::Kind kind, const device::View& flat) {
        checkpoint.load(map_.table(), map_.layout(), kind, flat.dtype, flat.data);
    };
    read(ckpt::Kind::weight, weights_);
    if (!with_optimizer) return;
    read(ckpt::Kind::exp_avg, exp_avg_);
    read(ckpt::Kind::exp_avg_sq, exp_avg_sq_);
    optimizer_step_ = checkpoint.manifest().counters.optimizer_step;
}

void Trainer::copy_in(const data::Batch& batch, i64 n_micro_batches) {
    const model::MicroBatchActivations& act = gpt_->slot(0);
    device_.copy_from_host(act.tokens, batch.tokens.data());
    device_.copy_from_host(act.targets, batch.targets.data());
    device_.copy_from_host(act.sample_ids, batch.sample_ids.data());
    if (!batch.positions.empty()) device_.copy_from_host(act.positions, batch.positions.data());
    if (act.doc_start) device_.copy_from_host(act.doc_start, batch.document_starts.data());
    double unmasked = static_cast<double>(loss_weight_.size());
    if (!batch.loss_mask.empty()) {
        unmasked = std::accumulate(batch.loss_mask.begin(), batch.loss_mask.end(), 0.0);
    }
    const double scale = unmasked > 0 ? 1.0 / (unmasked * static_cast<double>(n_micro_batches)) : 0;
    for (size_t i = 0; i < loss_weight_.size(); ++i) {
        const double mask = batch.loss_mask.empty() ? 1.0 : batch.loss_mask[i];
        loss_weight_[i] = static_cast<float>(mask * scale);
    }
    device_.copy_from_host(act.loss_weight, loss_weight_.data());
}

void Trainer::clear_step_sums() {
    constexpr std::array<double, model::step_sum_count> zeros{};
    device_.copy_from_host(gpt_->shared().step_sums, zeros.data());
}

device::View Trainer::step_sum(model::StepSum which) const {
    return gpt_->shared().step_sums.rows(which, which + 1);
}

std::array<double, model::step_sum_count> Trainer::read_step_sums() {
    std::array<double, model::step_sum_count> sums{};
    device_.copy_to_host(sums.data(), gpt_->shared().step_sums);
    return sums;
}

}  // namespace lm::train
