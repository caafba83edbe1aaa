// SPDX-License-Identifier: Apache-2.0
// AdamW over a rank's flat parameters. Weight decay applies to matrices and embeddings, not to
// biases and norms (weight_decay of the tensor table, spec/tensor_table.hpp).
#pragma once

#include "base/range.hpp"
#include "device/ops.hpp"
#include "model/params.hpp"
#include "optim/learning_rate.hpp"
#include "spec/optimizer_config.hpp"

namespace lm::optim {

// Returns the factor by which gradients with the global norm `norm` are multiplied: clip / (norm +
// 1e-6), but at most 1 (Megatron's clip_grad_norm_fp32). Returns 1 if `clip` is 0 or below.
double clip_coefficient(double norm, double clip);

class AdamWOptimizer {
  public:
    // `weights` and `gradients` are the flat buffers of `map`, with n elements. `updated` has the
    // ranges of these buffers that this rank updates, with s elements in total. Shapes:
    //   weights     [n] bf16|fp16|fp32
    //   gradients   [n] fp32
    //   masters     [s] fp32, the ranges of `updated` in order; none when weights are fp32
    //   exp_avg     [s] fp32, exp_avg_sq [s] fp32
    // With masters, every update writes the rounded masters to the weights.
    AdamWOptimizer(const spec::AdamWConfig& config, const model::ParamMap& map,
                   const std::vector<Range>& updated, device::View weights, device::View masters,
                   device::View gradients, device::View exp_avg, device::View exp_avg_sq);

    // Multiplies the gradients by `grad_scale` and does update number `step` (from 1) with them.
    void step(device::Context& context, i64 step, const UpdateRates& rates, double grad_scale);

    const spec::AdamWConfig& config() const { return config_; }

  private:
    spec::AdamWConfig config_;
    std::vector<device::AdamWPart> parts_;
    // The word embedding and the output projection, which may have their own learning rate.
    std::vector<device::AdamWPart> vocab_parts_;
    device::View weights_;     // [n] bf16|fp16|fp32
    device::View masters_;     // [s] fp32, or none
    device::View gradients_;   // [n] fp32
    device::View exp_avg_;     // [s] fp32
    device::View exp_avg_sq_;  // [s] fp32
};

}  // namespace lm::optim
