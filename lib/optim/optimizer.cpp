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

// Returns the ranges of the flat buffer that have weight decay, or with `decay` false those that
// have none.
std::vector<Range> with_decay(const model::ParamMap& map, bool decay) {
    std::vector<Range> ranges;
    for (const spec::LocalTensor& local : map.layout().tensors) {
        if (map.spec_of(local).weight_decay == decay) append(ranges, {local.offset, local.end()});
    }
    return ranges;
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
        const std::vector<Range> ranges = with_decay(map, decay);
        i64 moments = 0;
        for (const Range& range : updated) {
            for (const Range& part : intersection({range}, ranges)) {
                parts_.push_back({.param_begin = part.begin,
                                  .state_begin = moments + part.begin - range.begin,
                                  .size = part.size(),
                                  .decay = decay});
            }
            moments += range.size();
        }
    }
}

void AdamWOptimizer::step(device::Context& context, i64 step, double lr, double grad_scale) {
    device::adamw(context, {.master = masters_ ? masters_ : weights_,
                            .weight = masters_ ? weights_ : device::View{},
                            .grad = gradients_,
                            .m = exp_avg_,
                            .v = exp_avg_sq_,
                            .parts = parts_,
                            .lr = lr,
                            .config = config_,
                            .step = step,
                            .grad_scale = grad_scale});
}

}  // namespace lm::optim
