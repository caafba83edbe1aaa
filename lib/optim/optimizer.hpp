// SPDX-License-Identifier: Apache-2.0
// AdamW over a rank's flat parameters with the field's decay rule: weight decay on matrices and
// embeddings, none on biases and norms (the tensor table says which).
#pragma once

#include "base/range.hpp"
#include "device/ops.hpp"
#include "model/params.hpp"
#include "spec/optimizer_config.hpp"

namespace lm::optim {

// The factor by which gradients of global norm `norm` are multiplied: clip / (norm + 1e-6) when
// that is below 1 (Megatron's clip_grad_norm_fp32), else 1.
double clip_coefficient(double norm, double clip);

class AdamWOptimizer {
  public:
    // `weights` and `gradients` are the flat buffers of `map`. Elements in `updated` are this
    // rank's to update: masters and moments hold those alone, one range behind the other. Without
    // masters the weights are fp32 themselves; with them they are 16-bit and get what the masters
    // are, rounded.
    AdamWOptimizer(const spec::AdamWConfig& config, const model::ParamMap& map,
                   const std::vector<Range>& updated, device::View weights, device::View masters,
                   device::View gradients, device::View exp_avg, device::View exp_avg_sq);

    // One update, number `step` (from 1), with gradients multiplied by `grad_scale`.
    void step(device::Context& context, i64 step, double lr, double grad_scale);

    const spec::AdamWConfig& config() const { return config_; }

  private:
    spec::AdamWConfig config_;
    std::vector<device::AdamWPart> parts_;
    device::View weights_, masters_, gradients_, exp_avg_, exp_avg_sq_;
};

}  // namespace lm::optim
