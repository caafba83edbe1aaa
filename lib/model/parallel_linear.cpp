// SPDX-License-Identifier: Apache-2.0
#include "model/parallel_linear.hpp"

namespace lm::model {
namespace {

// While an object of this class exists, GEMMs leave some SMs free for the tensor-parallel
// collective that overlaps with them. Without a `running` collective, GEMMs may use these SMs too.
class TensorCommSms {
  public:
    TensorCommSms(const Pass& pass, bool running) : device_(pass.context.device) {
        device_.also_reserve_sms(running ? static_cast<int>(pass.setup.tensor_comm_sms) : 0);
    }
    ~TensorCommSms() { device_.also_reserve_sms(0); }
    TensorCommSms(const TensorCommSms&) = delete;
    TensorCommSms& operator=(const TensorCommSms&) = delete;

  private:
    device::Device& device_;
};

}  // namespace

void column_linear_forward(const Pass& pass, device::LinearForward args) {
    args.x = pass.setup.tensor.gather(args.x, pass.setup.scratch.gathered);
    device::linear_forward(pass.context, args);
}

View column_linear_backward(const Pass& pass, const ColumnLinearGradient& grad) {
    const TensorParallel& tensor = pass.setup.tensor;
    const Scratch& scratch = pass.setup.scratch;
    auto x = tensor.start_gather(grad.x, scratch.gathered);
    {
        // Without sequence parallelism the rank has all of x, and nothing is gathered.
        const TensorCommSms reserved(pass, tensor.sequence_parallel());
        device::linear_backward_input(pass.context,
                                      {.dy = grad.dy, .w = grad.w, .dx = scratch.dnorm});
    }
    x.work.wait();
    auto dx = tensor.start_sum(scratch.dnorm);
    {
        const TensorCommSms reserved(pass, tensor.several());
        device::linear_backward_weight(pass.context, {.dy = grad.dy,
                                                      .x = x.x,
                                                      .dw = grad.dw,
                                                      .dbias = grad.dbias,
                                                      .accumulate = pass.accumulate});
    }
    dx.work.wait();
    return dx.x;
}

View row_linear_forward(const Pass& pass, const RowLinear& linear, const View& y) {
    const TensorParallel& tensor = pass.setup.tensor;
    // With sequence parallelism `y` has memory for the rows of this rank only.
    const View parts = y && !tensor.sequence_parallel() ? y : pass.setup.scratch.branch;
    // The results of the tensor ranks are summed, so only the first rank adds the bias.
    device::linear_forward(
        pass.context,
        {.x = linear.x, .w = linear.w, .bias = tensor.first() ? linear.bias : View{}, .y = parts});
    if (!y) return tensor.sum(parts);
    tensor.sum(parts, y);
    return y;
}

void row_linear_backward(const Pass& pass, const RowLinearGradient& grad) {
    const View dy = pass.setup.tensor.gather(grad.dy, pass.setup.scratch.gathered);
    device::linear_backward_weight(pass.context,
                                   {.dy = dy,
                                    .x = grad.x,
                                    .dw = grad.dw,
                                    .dbias = folded_bias(pass, grad.dbias) ? View{} : grad.dbias,
                                    .accumulate = pass.accumulate});
    device::LinearBackwardInput input = grad.input;
    input.dy = dy;
    device::linear_backward_input(pass.context, input);
}

}  // namespace lm::model
