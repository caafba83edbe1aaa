// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

#include "base/error.hpp"

namespace lm::optim {

double clip_coefficient(double norm, double clip) {
    if (clip <= 0.0) return 1.0;
    const double coefficient = clip / (norm + 1e-6);
    return coefficient < 1.0 ? coefficient : 1.0;
}

namespace {

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

}  // namespace

AdamWOptimizer::AdamWOptimizer(const spec::AdamWConfig& config, const model::ParamMap& map,
                               const std::vector<Range>& updated, device::View weights,
                               device::View masters, device::View gradients, device::View exp_avg,
                               device::View exp_avg_sq)
    : config_(config),
      weights_(weights),
      masters_(masters),
      gradients_(gradients),
      exp_avg_(exp_avg),
      exp_avg_sq_(exp_avg_sq) {
    LM_CHECK(exp_avg.numel() == total_size(updated), "exp_avg: expected {} elements, got {}",
             total_size(updated), exp_avg.numel());
    LM_CHECK(bool(masters) == is_half(weights.dtype), "{} weights: expected {}, got {}",
             name_of(weights.dtype), is_half(weights.dtype) ? "fp32 masters" : "no masters",
             masters ? "masters" : "none");
    for (const bool decay : {true, false}) {
        const auto add = [&](std::vector<device::AdamWPart>& parts, bool vocab) {
            const auto wanted = [=](const spec::TensorSpec& tensor) {
                return tensor.weight_decay == decay && tensor.vocab_rows == vocab;
            };
            const auto found = parts_of(updated, ranges_of(map, wanted), decay);
            parts.insert(parts.end(), found.begin(), found.end());
        };
        add(parts_, false);
        add(vocab_parts_, true);
    }
}

void AdamWOptimizer::step(device::Context& context, i64 step, const UpdateRates& rates,
                          double grad_scale) {
    spec::AdamWConfig config = config_;
    config.weight_decay = rates.weight_decay.value_or(config.weight_decay);
    const auto update = [&](const std::vector<device::AdamWPart>& parts, double lr) {
        if (parts.empty()) return;
        device::adamw(context, {.master = masters_ ? masters_ : weights_,
                                .weight = masters_ ? weights_ : device::View{},
                                .grad = gradients_,
                                .m = exp_avg_,
                                .v = exp_avg_sq_,
                                .parts = parts,
                                .lr = lr,
                                .config = config,
                                .step = step,
                                .grad_scale = grad_scale});
    };
    update(parts_, rates.lr);
    update(vocab_parts_, rates.decoupled_lr.value_or(rates.lr));
}

}  // namespace lm::optim
