// SPDX-License-Identifier: Apache-2.0
// AdamW over a rank's flat parameters with the field's decay rule: weight decay on matrices and
// embeddings, none on biases and norms (the tensor table says which).
#pragma once

#include "device/ops.hpp"
#include "model/params.hpp"

namespace lm::optim {

struct AdamWConfig {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.01;
    double clip_grad = 1.0;  // global norm; 0: no clipping
};

// The factor by which gradients of global norm `norm` are multiplied: clip / (norm + 1e-6) when
// that is below 1 (Megatron's clip_grad_norm_fp32), else 1.
double clip_coefficient(double norm, double clip);

class AdamWOptimizer {
  public:
    // `masters` are fp32: the weights themselves, or copies of 16-bit `weights`.
    AdamWOptimizer(const AdamWConfig& config, const model::ParamMap& map, device::View masters,
                   device::View weights, device::View gradients, device::View exp_avg,
                   device::View exp_avg_sq);

    // One update, number `step` (from 1), with gradients multiplied by `grad_scale`.
    void step(device::Context& context, i64 step, double lr, double grad_scale);

    const AdamWConfig& config() const { return config_; }

  private:
    struct Range {
        i64 begin;
        i64 end;
        bool decay;
    };
    AdamWConfig config_;
    std::vector<Range> ranges_;  // of the flat buffers, neighbours with the same rule joined
    device::View masters_, weights_, gradients_, exp_avg_, exp_avg_sq_;
};

}  // namespace lm::optim
