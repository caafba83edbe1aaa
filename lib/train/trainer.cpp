// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "cost/nccl.hpp"
#include "model/positions.hpp"
#include "train/gpu_memory.hpp"

namespace lm::train {

using device::Context;

namespace {

// Elements of the flat buffer that this rank counts, in the gradient norm and in checkpoints: not
// those of tensors that another tensor rank or stage has as well, nor what lies between tensors,
// where a reduction in place may leave anything.
std::vector<Range> counted_elements(const spec::RankLayout& layout, i64 tp_rank) {
    std::vector<Range> ranges;
    for (const spec::LocalTensor& tensor : layout.tensors) {
        if (tensor.copy || (tensor.replicated && tp_rank > 0)) continue;
        append(ranges, {tensor.offset, tensor.end()});
    }
    return ranges;
}

// The table that first and last stage share: none when one rank has both.
const spec::LocalTensor* shared_table(const model::ParamMap& map, comm::Group& embedding) {
    if (embedding.size() == 1) return nullptr;
    const auto& tensors = map.layout().tensors;
    const auto table = std::ranges::find_if(
        tensors, [&map](const auto& tensor) { return map.spec_of(tensor).tied_head; });
    return table == tensors.end() ? nullptr : &*table;
}

device::Buffer allocate(device::Device& device, const cost::MemoryPlan& plan, i64 bytes,
                        std::string_view purpose) {
    try {
        return device.allocate(bytes, purpose);
    } catch (const Error& error) {
        throw Error(error.code(), fmt::format("{}: the plan is {}: use a smaller "
                                              "--micro-batch-size, recompute, or more ranks",
                                              error.what(), describe(plan)));
    }
}

}  // namespace

cost::MemoryPlan memory_plan(const TrainerConfig& config, i64 tp_rank, i64 pp_rank) {
    const cost::StepShape step{config.micro_batch, config.model.seq_length, config.n_micro_batches};
    return cost::plan_memory(config.model, config.parallel, step, config.precision,
                             config.processor(), tp_rank, pp_rank);
}

Trainer::Trainer(const TrainerConfig& config, device::Device& device, parallel::Grid grid)
    : config_(config),
      device_(device),
      grid_(std::move(grid)),
      plan_(memory_plan(config, grid_.at.tp, grid_.at.pp)),
      map_(config.model, config.parallel, grid_.at.tp, grid_.at.pp),
      weight_buffer_(allocate(device, plan_, plan_.weights, "weights")),
      master_buffer_(allocate(device, plan_, plan_.masters, "masters")),
      gradient_buffer_(allocate(device, plan_, plan_.gradients, "gradients")),
      optimizer_buffer_(allocate(device, plan_, plan_.optimizer, "optimizer state")),
      activation_buffer_(
          allocate(device, plan_, plan_.activations + plan_.workspace, "activations")) {
    LM_CHECK(grid_.tensor->size() == config.parallel.tp &&
                 grid_.pipeline->size() == config.parallel.pp &&
                 grid_.data->size() == config.parallel.dp,
             "a grid of another layout");
    const Shape flat{spec::flat_elements(map_.layout(), config.parallel)};
    weights_ = weight_buffer_.view(config.precision.weights, flat);
    if (config.precision.weights == DType::fp16) scaler_ = optim::LossScaler(config.loss_scale);
    gradients_ = gradient_buffer_.view(DType::fp32, flat);
    workspace_ = activation_buffer_.view(plan_.activations, DType::uint8, {plan_.workspace});
    build_data_parallel();
    bind_optimizer();
    set_seq_length(config.model.seq_length);
    warm_up();
}

// What the groups are going to carry between devices, so that no step makes connections: the
// largest of each kind, in memory that has nothing in it yet.
void Trainer::warm_up() {
    chunks_.front().warm_up();
    data_parallel_->warm_up();
    if (tied_.empty()) return;
    const Range& range = *std::ranges::max_element(tied_, {}, &Range::size);
    grid_.embedding->warm_up_all_reduce(gradients_.rows(range.begin, range.end),
                                        comm::Reduction::sum);
}

void Trainer::build_data_parallel() {
    const spec::RankLayout& layout = map_.layout();
    const spec::LocalTensor* const table = shared_table(map_, *grid_.embedding);
    LM_CHECK(table == nullptr || table->offset == 0, "a shared table that is not the first tensor");
    data_parallel_ = std::make_unique<parallel::DataParallel>(
        *grid_.data, config_.parallel.zero_stage, config_.data_parallel, weights_, gradients_,
        layout.n_elements, table != nullptr ? table->end() : 0);
    overlap_ = std::make_unique<parallel::Overlap>(config_.model, layout, *data_parallel_);
    counted_ = intersection(data_parallel_->owned(), counted_elements(layout, grid_.at.tp));
    if (table != nullptr) tied_ = intersection(data_parallel_->updated(), {{0, table->end()}});
}

void Trainer::bind_optimizer() {
    const Shape moments{total_size(data_parallel_->updated())};
    if (is_half(weights_.dtype)) masters_ = master_buffer_.view(DType::fp32, moments);
    exp_avg_ = optimizer_buffer_.view(DType::fp32, moments);
    exp_avg_sq_ = optimizer_buffer_.view(exp_avg_.bytes(), DType::fp32, moments);
    optimizer_ = std::make_unique<optim::AdamWOptimizer>(
        config_.adamw, map_, data_parallel_->updated(), weights_, masters_, gradients_, exp_avg_,
        exp_avg_sq_);
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
    LM_CHECK(seq_length > 0 && seq_length <= config_.model.seq_length, "a sequence too long");
    seq_length_ = seq_length;
    loss_weight_.resize(static_cast<size_t>(step_shape().rows()));
    build_chunks();
}

void Trainer::build_chunks() {
    const cost::StepShape step = step_shape();
    chunks_.clear();
    const cost::StageShape stage =
        cost::stage_shape(config_.model, config_.parallel, step, grid_.at.pp, grid_.at.tp);
    std::vector<model::ChunkActivations> activations = model::bind_activations(
        cost::plan_activations(config_.model, config_.parallel, step, stage), activation_buffer_);
    model::write_position_constants(
        config_.model, spec::tensor_share(config_.model, config_.parallel, grid_.at.tp).first_head,
        device_, activations.front().shared);
    std::vector<i32> positions(static_cast<size_t>(step.rows()));
    for (i64 row = 0; row < step.rows(); ++row) {
        positions[static_cast<size_t>(row)] = static_cast<i32>(row % step.seq_length);
    }
    std::vector<std::vector<parallel::Border>> borders;
    for (i64 chunk = 0; chunk < config_.parallel.n_chunks; ++chunk) {
        const spec::ModelPart part =
            spec::model_part(config_.model, config_.parallel, grid_.at.pp, chunk);
        for (model::MicroBatchActivations& slot : activations[static_cast<size_t>(chunk)].slots) {
            if (!config_.document_attention) slot.doc_start = {};
        }
        chunks_.emplace_back(model::ChunkSetup{.config = config_.model,
                                               .parallel = config_.parallel,
                                               .part = part,
                                               .seed = config_.seed,
                                               .tensor = grid_.tensor.get(),
                                               .hooks = overlap_.get()},
                             map_.bind(weights_, chunk), map_.bind(gradients_, chunk),
                             std::move(activations[static_cast<size_t>(chunk)]));
        const model::GptChunk& gpt = chunks_.back();
        borders.emplace_back();
        for (int slot = 0; slot < gpt.n_slots(); ++slot) {
            if (const device::View& view = gpt.slot(slot).positions) {
                device_.copy_from_host(view, positions.data());
            }
            borders.back().push_back({gpt.stage_input(slot), gpt.stage_output(slot)});
        }
    }
    if (chunks_.size() > 1) taken_.resize(static_cast<size_t>(config_.parallel.pp));
    pipeline_ = std::make_unique<parallel::Pipeline>(
        grid_, std::move(borders), [this](i64 chunk, i64 i) { forward(chunk, i); },
        [this](i64 chunk, i64 i) { backward(chunk, i); });
}

// ---- a step -----------------------------------------------------------------------------------

StepResult Trainer::step(const NextBatch& next, i64 n_micro_batches, double lr) {
    const double scale = scaler_.scale();
    begin_pass({&next, n_micro_batches, true});
    pipeline_->train(n_micro_batches);  // gradients leave as soon as backward has completed them
    enter("gradient reduction");
    data_parallel_->finish_reduce();
    sum_tied_embedding();
    add_gradient_squares();
    const StepSums sums = global_sums();
    StepResult result{.loss = sums[model::loss_sum],
                      .gradient_norm = std::sqrt(sums[model::gradient_sum_squares]) / scale};
    result.updated = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
    scaler_.update(!std::isfinite(result.gradient_norm));
    result.loss_scale = scaler_.scale();
    if (!result.updated) return result;
    enter("optimizer");
    ++optimizer_step_;
    double clip = optim::clip_coefficient(result.gradient_norm, config_.adamw.clip_grad);
    if (clip_fault_) clip = clip_fault_(clip);
    Context context = this->context();
    optimizer_->step(context, optimizer_step_, lr, clip / scale);
    data_parallel_->start_gather();  // weights arrive before the next forward reads them
    return result;
}

double Trainer::evaluate(const NextBatch& next, i64 n_micro_batches) {
    begin_pass({&next, n_micro_batches, false});
    pipeline_->evaluate(n_micro_batches);
    return global_sums()[model::loss_sum];
}

void Trainer::begin_pass(const Pass& pass) {
    pass_ = pass;
    constexpr StepSums zeros{};
    device_.copy_from_host(chunks_.front().shared().step_sums, zeros.data());
}

// What may be under way beside the products that follow: by the order of the program, not by what
// is, so that a product is done alike each time.
void Trainer::reserve_sms(bool collectives) {
    device_.reserve_sms(cost::nccl_blocks(config_.parallel, grid_.at.pp, collectives));
}

model::MicroBatch Trainer::micro_batch_of(i64 chunk, i64 micro_batch) const {
    return {.slot = pipeline_->slot_of(chunk, micro_batch),
            .training = pass_.training,
            .first = micro_batch == 0,
            .last = micro_batch + 1 == pass_.n_micro_batches};
}

void Trainer::forward(i64 chunk, i64 micro_batch) {
    enter(pass_.training ? "forward" : "evaluation", micro_batch);
    Context context = this->context();
    model::GptChunk& gpt = chunks_[static_cast<size_t>(chunk)];
    const model::MicroBatch at = micro_batch_of(chunk, micro_batch);
    reserve_sms(at.first && config_.data_parallel.overlap_param_gather);
    copy_in(batch_of(chunk, micro_batch), gpt.slot(at.slot));
    gpt.forward(context, at);
    if (gpt.part().head) gpt.loss(context, at, scaler_.scale());
}

void Trainer::backward(i64 chunk, i64 micro_batch) {
    enter("backward", micro_batch);
    Context context = this->context();
    const model::MicroBatch at = micro_batch_of(chunk, micro_batch);
    reserve_sms(at.last && config_.data_parallel.overlap_grad_reduce);
    chunks_[static_cast<size_t>(chunk)].backward(context, at);
}

// Chunks take turns in rounds of as many micro-batches as there are stages, so the later ones find
// a round's batches where the first has put them.
const data::Batch& Trainer::batch_of(i64 chunk, i64 micro_batch) {
    if (taken_.empty()) return (*pass_.next)();
    data::Batch& batch = taken_[static_cast<size_t>(micro_batch) % taken_.size()];
    if (chunk == 0) batch = (*pass_.next)();
    return batch;
}

void Trainer::copy_in(const data::Batch& batch, const model::MicroBatchActivations& act) {
    device_.copy_from_host(act.sample_ids, batch.sample_ids.data());
    if (config_.document_attention) {
        device_.copy_from_host(act.doc_start, batch.document_starts.data());
    }
    if (act.tokens) device_.copy_from_host(act.tokens, batch.tokens.data());
    if (act.positions && !batch.positions.empty()) {
        device_.copy_from_host(act.positions, batch.positions.data());
    }
    if (!act.targets) return;
    device_.copy_from_host(act.targets, batch.targets.data());
    double unmasked = static_cast<double>(loss_weight_.size());
    if (!batch.loss_mask.empty()) {
        unmasked = std::accumulate(batch.loss_mask.begin(), batch.loss_mask.end(), 0.0);
    }
    const auto n = static_cast<double>(pass_.n_micro_batches * config_.parallel.dp);
    const double scale = unmasked > 0 ? 1.0 / (unmasked * n) : 0;
    for (size_t i = 0; i < loss_weight_.size(); ++i) {
        const double mask = batch.loss_mask.empty() ? 1.0 : batch.loss_mask[i];
        loss_weight_[i] = static_cast<float>(mask * scale);
    }
    device_.copy_from_host(act.loss_weight, loss_weight_.data());
}

// First and last stage each have the gradient of their use of the table.
void Trainer::sum_tied_embedding() {
    for (const Range& range : tied_) {
        grid_.embedding->all_reduce(gradients_.rows(range.begin, range.end));
    }
}

void Trainer::add_gradient_squares() {
    Context context = this->context();
    const device::View sum = chunks_.front().shared().step_sums.rows(
        model::gradient_sum_squares, model::gradient_sum_squares + 1);
    for (const Range& range : counted_) {
        device::sum_squares(
            context,
            {.x = gradients_.rows(range.begin, range.end), .out = sum, .accumulate = true});
    }
}

Trainer::StepSums Trainer::global_sums() {
    StepSums sums{};
    device_.copy_to_host(sums.data(), chunks_.front().shared().step_sums);
    if (grid_.at.tp > 0) sums[model::loss_sum] = 0;  // the same on all tensor ranks
    grid_.world->all_reduce({sums.data(), DType::fp64, {model::step_sum_count}});
    return sums;
}

// ---- everything else --------------------------------------------------------------------------

void Trainer::logits(const data::Batch& batch, const RowsOfLogits& take) {
    LM_CHECK(grid_.world->size() == 1, "logits of a part of the model");
    Context context = this->context();
    model::GptChunk& gpt = chunks_.front();
    begin_pass({nullptr, 1, false});
    copy_in(batch, gpt.slot(0));
    gpt.forward(context, {.training = false});
    const device::View chunk = gpt.shared().logits;
    const i64 n_rows = gpt.slot(0).final_norm[0];
    std::vector<float> host(static_cast<size_t>(chunk.numel()));
    std::vector<u16> bits(is_half(chunk.dtype) ? host.size() : 0);
    for (i64 begin = 0; begin < n_rows; begin += chunk[0]) {
        const i64 end = std::min(begin + chunk[0], n_rows);
        const device::View rows = chunk.rows(0, end - begin);
        gpt.logits(context, 0, begin, end, rows);
        if (bits.empty()) {
            device_.copy_to_host(host.data(), rows);
        } else {
            device_.copy_to_host(bits.data(), rows);
            std::ranges::transform(bits, host.begin(),
                                   rows.dtype == DType::bf16 ? fp32_from_bf16 : fp32_from_fp16);
        }
        for (i64 row = begin; row < end; ++row) {
            const auto first = static_cast<size_t>((row - begin) * chunk[1]);
            take(row,
                 std::span(host).subspan(first, static_cast<size_t>(config_.model.vocab_size)));
        }
    }
}

}  // namespace lm::train
