// SPDX-License-Identifier: Apache-2.0
// Linear layers that are split over the tensor ranks (Shoeybi et al. 2019, "Megatron-LM", section
// 3). In a column-parallel layer, each rank computes some of the outputs from all inputs. In a
// row-parallel layer, each rank computes a part of the sum over the inputs. A branch (attention or
// MLP) begins with a column-parallel layer and ends with a row-parallel layer. Letters: K inputs
// and O outputs of this rank; model/pass.hpp has the other letters.
#pragma once

#include "model/pass.hpp"

namespace lm::model {

// Computes a column-parallel layer. args.x: [R, K] compute, the rows of this rank. The other
// arguments are as in device::linear_forward.
void column_linear_forward(const Pass& pass, device::LinearForward args);

struct ColumnLinearGradient {
    View dy;     // [N, O] compute
    View x;      // [R, C] compute: this rank's rows of the input
    View w;      // [O, C] compute
    View dw;     // [O, C] fp32
    View dbias;  // [O] fp32, or none
};
// Computes the gradients of weight and bias. Returns the gradient of x, [R, C] compute, in
// scratch.dnorm. The two GEMMs overlap with gathering x and with summing its gradient over the
// tensor ranks.
View column_linear_backward(const Pass& pass, const ColumnLinearGradient& grad);

struct RowLinear {
    View x;     // [N, K] compute
    View w;     // [C, K] compute
    View bias;  // [C] compute, or none
};
// Computes a row-parallel layer: y = x w^T + bias, [R, C] compute, summed over the tensor ranks.
// Without `y`, the result is in scratch.branch. Returns y.
View row_linear_forward(const Pass& pass, const RowLinear& linear, const View& y = {});

// Returns `dbias`, [C] fp32, the gradient of a row-parallel layer's bias, if the backward of the
// next norm computes this gradient. The norm's backward sums the branch's gradient while it writes
// that gradient, which saves a read. Returns none with sequence parallelism, where the norm has
// only a part of the rows.
inline View folded_bias(const Pass& pass, const View& dbias) {
    return pass.setup.tensor.sequence_parallel() ? View{} : dbias;
}

struct RowLinearGradient {
    View dy;                            // [R, C] compute
    View x;                             // [N, K] compute
    View dw;                            // [C, K] fp32
    View dbias;                         // [C] fp32, or none
    device::LinearBackwardInput input;  // row_linear_backward() sets dy: the rows of all ranks
};
// Computes the gradients of weight and input, and of the bias unless folded_bias() returns a view.
void row_linear_backward(const Pass& pass, const RowLinearGradient& grad);

}  // namespace lm::model
