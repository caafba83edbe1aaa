// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_probe.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "spec/partition.hpp"

namespace lm::train {

using device::View;
using model::GptChunk;
using Phase = NonFinite::Phase;

namespace {

// Returns whether the element of type `dtype` at `at` is finite.
bool finite_bits(const std::byte* at, DType dtype) {
    if (dtype == DType::fp64 || dtype == DType::fp32) {
        double value = 0;
        float single = 0;
        if (dtype == DType::fp64) {
            std::memcpy(&value, at, sizeof value);
        } else {
            std::memcpy(&single, at, sizeof single);
            value = static_cast<double>(single);
        }
        return std::isfinite(value);
    }
    u16 bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    // IEEE 754: an exponent of only ones is an infinity or a NaN. bf16 has 8 exponent bits, fp16 5.
    const u16 exponent = dtype == DType::bf16 ? 0x7f80 : 0x7c00;
    return (bits & exponent) != exponent;
}

}  // namespace

void StepProbe::start_search() {
    searching_ = true;
    found_.reset();
    samples_.clear();
}

std::optional<NonFinite> StepProbe::end_search() {
    searching_ = false;
    return std::move(found_);
}

bool StepProbe::faulty(StepFault::Kind kind) const {
    return fault_ && training_ && fault_->kind == kind && fault_->iteration == iteration_ &&
           !(fault_->once && planted_);
}

// Overwrites the first element of `view`.
void StepProbe::write(const View& view, double value) {
    planted_ = true;
    const View first = view.flat().rows(0, 1);
    const auto single = static_cast<float>(value);
    const bool nan = std::isnan(value);
    // A quiet NaN or infinity, in bf16 and in fp16.
    const u16 bits = first.dtype == DType::bf16 ? (nan ? 0x7fc0 : 0x7f80) : (nan ? 0x7e00 : 0x7c00);
    if (first.dtype == DType::fp64) {
        device_.copy_from_host(first, &value);
    } else if (first.dtype == DType::fp32) {
        device_.copy_from_host(first, &single);
    } else {
        device_.copy_from_host(first, &bits);
    }
}

bool StepProbe::is_finite(const View& view) const {
    constexpr i64 piece = 1 << 14;
    std::array<std::byte, 8 * piece> host;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const View flat = view.flat();
    const auto size = static_cast<size_t>(size_of(flat.dtype));
    for (i64 begin = 0; begin < flat.numel(); begin += piece) {
        const i64 end = std::min(begin + piece, flat.numel());
        device_.copy_to_host(host.data(), flat.rows(begin, end));
        for (i64 i = 0; i < end - begin; ++i) {
            if (!finite_bits(host.data() + static_cast<size_t>(i) * size, flat.dtype)) return false;
        }
    }
    return true;
}

void StepProbe::check(const View& view, Phase phase, i64 position, const std::string& object) {
    // Calls come in the order of computation, so only the first finding is stored.
    if (!searching_ || found_ || !view || is_finite(view)) return;
    const auto at = static_cast<size_t>(micro_batch_);
    found_ = {.phase = phase,
              .micro_batch = micro_batch_,
              .position = position,
              .object = object,
              .samples = at < samples_.size() ? samples_[at] : std::vector<i64>{}};
}

// ---- forward ----------------------------------------------------------------------------------

void StepProbe::begin_forward(const GptChunk& chunk, const model::MicroBatch& at, i64 micro_batch,
                              const std::vector<i64>& samples) {
    chunk_ = &chunk;
    slot_ = at.slot;
    training_ = at.training;
    micro_batch_ = micro_batch;
    if (!searching_) return;
    const auto index = static_cast<size_t>(micro_batch);
    samples_.resize(std::max(samples_.size(), index + 1));
    samples_[index] = samples;
}

void StepProbe::before_forward(i64 unit) {
    overlap_.before_forward(unit);
    if (!searching_ && !fault_) return;
    const i64 first = chunk_->part().first_layer;
    const i64 local = unit - spec::unit_of_layer(first) - 1;  // the layer before `unit`
    if (local >= 0 && local < chunk_->part().n_layers()) after_layer(local);
}

// Checks the residual stream of a local layer before its attention and before its MLP. The stream
// before the attention includes the output of the previous layer's MLP.
void StepProbe::after_layer(i64 local) {
    const i64 layer = chunk_->part().first_layer + local;
    const auto& act = chunk_->slot(slot_).layers[static_cast<size_t>(local)];
    if (faulty(StepFault::Kind::activation) && fault_->layer == layer)
        write(act.middle, fault_->value);
    // A layer has two positions in the order of computation, 2 * layer before its attention and
    // 2 * layer + 1 after its attention.
    check(act.attention_norm.stream, Phase::forward, 2 * layer,
          layer == 0 ? "the embedding" : fmt::format("the MLP of layer {}", layer - 1));
    check(act.middle, Phase::forward, 2 * layer + 1,
          fmt::format("the attention of layer {}", layer));
}

void StepProbe::end_forward() {
    if (!searching_ && !fault_) return;
    const spec::ModelPart& part = chunk_->part();
    // In a chunk without head no unit follows the last layer, so before_forward() has not checked
    // this layer.
    if (!part.head && part.n_layers() > 0) after_layer(part.n_layers() - 1);
    const i64 after = part.first_layer + part.n_layers();
    const View& stream = chunk_->slot(slot_).final_norm.stream;
    if (!part.head && faulty(StepFault::Kind::activation) && fault_->layer == after - 1)
        write(stream, fault_->value);
    check(stream, Phase::forward, 2 * after,
          after == 0 ? "the embedding" : fmt::format("the MLP of layer {}", after - 1));
    check(chunk_->slot(slot_).final_norm.y, Phase::forward, 2 * after + 1, "the final norm");
}

void StepProbe::after_loss(const View& loss, double tokens, i64 micro_batch) {
    micro_batch_ = micro_batch;
    if (faulty(StepFault::Kind::loss)) write(loss, fault_->value * tokens);
    check(loss, Phase::loss, 0, "the loss");
}

// ---- backward ---------------------------------------------------------------------------------

void StepProbe::after_backward(i64 unit) {
    if (faulty(StepFault::Kind::gradient) && unit == spec::unit_of_layer(fault_->layer)) {
        for (const spec::LocalTensor& tensor : params_.layout().tensors) {
            if (tensor.unit != unit) continue;
            write(gradients_.rows(tensor.offset, tensor.end()), fault_->value);
            break;
        }
    }
    // During a search, gradients are not reduced here, because they must not contain the gradients
    // of other ranks when they are checked.
    if (!searching_) overlap_.after_backward(unit);
}

void StepProbe::after_micro_batch(i64 micro_batch) {
    if (!searching_ || found_) return;
    micro_batch_ = micro_batch;
    find_gradient();
}

std::optional<NonFinite> StepProbe::scan_gradients() {
    start_search();
    find_gradient();
    return end_search();
}

void StepProbe::find_gradient() {
    const auto& tensors = params_.layout().tensors;
    // The backward pass goes from the last unit to the first.
    std::vector<const spec::LocalTensor*> order;
    for (const spec::LocalTensor& tensor : tensors) order.push_back(&tensor);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->unit > b->unit; });
    for (size_t i = 0; i < order.size() && !found_; ++i) {
        check(gradients_.rows(order[i]->offset, order[i]->end()), Phase::backward,
              (i64{1} << 15) - order[i]->unit,  // increases in the order of the backward pass
              fmt::format("the gradient of {}", params_.spec_of(*order[i]).name));
    }
}

}  // namespace lm::train
