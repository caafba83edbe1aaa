// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "device/ops.hpp"

namespace lm::optim {

double clip_coefficient(double norm, double clip) {
    if (clip <= 0.0) return 1.0;
    const double coefficient = clip / (norm + 1e-6);
    return coefficient < 1.0 ? coefficient : 1.0;
}

namespace {

// Returns the data of a state that all updated elements have, [s] in any dtype.
device::View data_of(const OptimizerBuffers& buffers, const spec::OptimizerState& state) {
    const auto found = std::ranges::find(
        buffers.states, state, [](const StateBuffer& buffer) { return buffer.held.state; });
    LM_CHECK(found != buffers.states.end(), "expected the state {}, got none", state.name);
    const i64 n = total_size(buffers.updated);
    LM_CHECK(found->data.numel() == n, "{}: expected {} elements, got {}", state.name, n,
             found->data.numel());
    return found->data;
}

// Returns the ranges of the flat buffer that hold the tensors for which wanted(spec) is true.
template <typename Wanted>
std::vector<Range> ranges_of(const model::ParamMap& map, const Wanted& wanted) {
    std::vector<Range> ranges;
    for (const spec::LocalTensor& local : map.layout().tensors) {
        if (wanted(map.spec_of(local))) append(ranges, {local.offset, local.end()});
    }
    return ranges;
}

// Returns the parts of `updated` that are in `ranges`.
std::vector<device::AdamWPart> parts_of(const std::vector<Range>& updated,
                                        const std::vector<Range>& ranges, bool decay) {
    std::vector<device::AdamWPart> parts;
    i64 moments = 0;
    for (const Range& range : updated) {
        for (const Range& part : intersection({range}, ranges)) {
            parts.push_back({.param_begin = part.begin,
                             .state_begin = moments + part.begin - range.begin,
                             .size = part.size(),
                             .decay = decay});
        }
        moments += range.size();
    }
    return parts;
}

// Returns the updated parts of the tensors that have a row for each token (`vocab`), or of the
// other tensors.
std::vector<device::AdamWPart> parts_of(const model::ParamMap& map,
                                        const std::vector<Range>& updated, bool vocab) {
    std::vector<device::AdamWPart> parts;
    for (const bool decay : {true, false}) {
        const auto wanted = [=](const spec::TensorSpec& tensor) {
            return tensor.weight_decay == decay && tensor.vocab_rows == vocab;
        };
        const auto found = parts_of(updated, ranges_of(map, wanted), decay);
        parts.insert(parts.end(), found.begin(), found.end());
    }
    return parts;
}

class AdamW final : public Optimizer {
  public:
    AdamW(const spec::AdamWConfig& config, const model::ParamMap& map, OptimizerBuffers buffers)
        : config_(config),
          parts_(parts_of(map, buffers.updated, false)),
          vocab_parts_(parts_of(map, buffers.updated, true)),
          exp_avg_(data_of(buffers, spec::exp_avg)),
          exp_avg_sq_(data_of(buffers, spec::exp_avg_sq)),
          buffers_(std::move(buffers)) {}

    void step(device::Context& context, i64 step, const spec::UpdateRates& rates,
              double grad_scale) override {
        const auto& [updated, weights, masters, gradients, states] = buffers_;
        spec::AdamWConfig config = config_;
        config.weight_decay = rates.weight_decay.value_or(config.weight_decay);
        for (const auto& [parts, lr] : {std::pair{&parts_, rates.lr},
                                        {&vocab_parts_, rates.decoupled_lr.value_or(rates.lr)}}) {
            if (parts->empty()) continue;
            device::adamw(context, {.master = masters ? masters : weights,
                                    .weight = masters ? weights : device::View{},
                                    .grad = gradients,
                                    .m = exp_avg_,
                                    .v = exp_avg_sq_,
                                    .parts = *parts,
                                    .lr = lr,
                                    .config = config,
                                    .step = step,
                                    .grad_scale = grad_scale});
        }
    }

  private:
    spec::AdamWConfig config_;
    std::vector<device::AdamWPart> parts_;
    // The word embedding and the output projection, which may have their own learning rate.
    std::vector<device::AdamWPart> vocab_parts_;
    device::View exp_avg_;     // [s] fp32
    device::View exp_avg_sq_;  // [s] fp32
    OptimizerBuffers buffers_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(spec::OptimizerKind kind, const spec::AdamWConfig& config,
                                          const model::ParamMap& map, OptimizerBuffers buffers) {
    const DType dtype = buffers.weights.dtype;
    LM_CHECK(bool(buffers.masters) == is_half(dtype), "{} weights: expected {}, got {}",
             name_of(dtype), is_half(dtype) ? "fp32 masters" : "no masters",
             buffers.masters ? "masters" : "none");
    switch (kind) {
        case spec::OptimizerKind::adam:
            return std::make_unique<AdamW>(config, map, std::move(buffers));
    }
    return nullptr;
}

}  // namespace lm::optim
