// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

namespace lm::optim {

double clip_coefficient(double norm, double clip) {
    if (clip <= 0.0) return 1.0;
    const double coefficient = clip / (norm + 1e-6);
    return coefficient < 1.0 ? coefficient : 1.0;
}

AdamWOptimizer::AdamWOptimizer(const AdamWConfig& config, const model::ParamMap& map,
                               device::View masters, device::View weights, device::View gradients,
                               device::View exp_avg, device::View exp_avg_sq)
    : config_(config),
      masters_(masters),
      weights_(weights.data == masters.data ? device::View{} : weights),
      gradients_(gradients),
      exp_avg_(exp_avg),
      exp_avg_sq_(exp_avg_sq) {
    for (const spec::LocalTensor& local : map.layout().tensors) {
        const bool decay = map.spec_of(local).weight_decay;
        // Alignment gaps between neighbours hold zeros everywhere and stay zero under the update.
        if (!ranges_.empty() && ranges_.back().decay == decay) {
            ranges_.back().end = local.end();
        } else {
            ranges_.push_back({local.offset, local.end(), decay});
        }
    }
}

void AdamWOptimizer::step(device::Context& context, i64 step, double lr, double grad_scale) {
    for (const Range& range : ranges_) {
        const auto part = [&range](const device::View& view) {
            return view ? view.rows(range.begin, range.end) : device::View{};
        };
        device::adamw(context, {.master = part(masters_),
                                .weight = part(weights_),
                                .grad = part(gradients_),
                                .m = part(exp_avg_),
                                .v = part(exp_avg_sq_),
                                .lr = lr,
                                .beta1 = config_.beta1,
                                .beta2 = config_.beta2,
                                .eps = config_.eps,
                                .weight_decay = range.decay ? config_.weight_decay : 0.0,
                                .step = step,
                                .grad_scale = grad_scale});
    }
}

}  // namespace lm::optim
