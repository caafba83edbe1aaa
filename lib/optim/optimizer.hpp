// SPDX-License-Identifier: Apache-2.0
// The optimizer of a rank: updates the rank's part of the weights, which are in flat buffers.
// Weight decay applies to matrices and embeddings, not to biases and norms (weight_decay of the
// tensor table, spec/tensor_table.hpp).
#pragma once

#include <memory>
#include <vector>

#include "base/range.hpp"
#include "model/params.hpp"
#include "spec/learning_rate.hpp"
#include "spec/optimizer_config.hpp"
#include "spec/optimizer_state.hpp"

namespace lm::optim {

// Returns the factor by which gradients with the global norm `norm` are multiplied: clip / (norm +
// 1e-6), but at most 1 (Megatron's clip_grad_norm_fp32). Returns 1 if `clip` is 0 or below.
double clip_coefficient(double norm, double clip);

// The memory of a state of the optimizer, zero before the first update.
struct StateBuffer {
    spec::StateRanges held;  // the elements of the flat buffers that have the state on this rank
    device::View data;       // [total_size(held.ranges)], any dtype: that of the state; in order
};

// The flat buffers of a rank, with n elements in the layout of a model::ParamMap. The rank updates
// the ranges `updated`, which have s elements in total.
struct OptimizerBuffers {
    std::vector<Range> updated;       // ascending
    device::View weights;             // [n] bf16|fp16|fp32
    device::View masters;             // [s] fp32, in order; none when weights are fp32
    device::View gradients;           // [n] fp32
    std::vector<StateBuffer> states;  // one for each of spec::state_ranges()
};

class Optimizer {
  public:
    virtual ~Optimizer() = default;

    // Multiplies the gradients by `grad_scale` and does update number `step` (from 1) with them.
    // With masters, also writes the rounded masters to the weights.
    virtual void step(device::Context& context, i64 step, const spec::UpdateRates& rates,
                      double grad_scale) = 0;
};

std::unique_ptr<Optimizer> make_optimizer(spec::OptimizerKind kind, const spec::AdamWConfig& config,
                                          const model::ParamMap& map, OptimizerBuffers buffers);

}  // namespace lm::optim
