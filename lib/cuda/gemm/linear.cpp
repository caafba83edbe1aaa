// SPDX-License-Identifier: Apache-2.0
// Linear layers: products by cuBLASLt (matmul.hpp), and kernels of our own for what it does not
// fuse. An activation that is not fused is a kernel of its own, after the product has written what
// it acts on, and costs one more reading of that matrix: GELU by erf, that of fp32, and one that is
// made again (Epilogue in matmul.hpp says why).
#include "cuda/gemm/matmul.hpp"
#include "cuda/kernels/activation.hpp"
#include "cuda/kernels/column_sums.hpp"
#include "cuda/ops.hpp"

namespace lm::cuda::ops {

using device::Activation;
using device::LinearBackwardInput;
using device::LinearBackwardWeight;
using device::LinearForward;

namespace {

Product forward_product(const LinearForward& a, const device::View& out, Epilogue epilogue) {
    return {.form = Form::x_wt,
            .rows = a.x[0],
            .cols = a.w[0],
            .depth = a.x[1],
            .a = a.x.data,
            .b = a.w.data,
            .c = out.data,
            .type = a.x.dtype,
            .c_type = out.dtype,
            .epilogue = epilogue,
            .bias = a.bias.data,
            .pre_activation = a.pre_activation.data};
}

// With an activation of its own.
void forward_apart(device::Context& context, const LinearForward& a) {
    const bool active = a.activation != Activation::none;
    const device::View& out = active ? a.pre_activation : a.y;
    const Epilogue epilogue = a.bias ? Epilogue::bias : Epilogue::none;
    device_of(context).matmul().run(context, forward_product(a, out, epilogue),
                                    [&] { repeat_row(stream_of(context), a.bias, out); });
    if (active) activate(stream_of(context), a.activation, out, a.y);
}

}  // namespace

void linear_forward(device::Context& context, const LinearForward& a) {
    const Epilogue gelu = a.bias ? Epilogue::gelu_bias : Epilogue::gelu;
    const Product product = forward_product(a, a.y, gelu);
    Matmul& matmul = device_of(context).matmul();
    if (a.activation == Activation::gelu_tanh && !a.recomputed && Matmul::can_fuse(product)) {
        matmul.run(context, product, [&] { forward_apart(context, a); });
    } else {
        forward_apart(context, a);
    }
}

void linear_backward_input(device::Context& context, const LinearBackwardInput& a) {
    const bool by_tanh = a.activation == Activation::gelu_tanh;
    const Product product{.form = Form::x_w,
                          .rows = a.dy[0],
                          .cols = a.w[1],
                          .depth = a.w[0],
                          .a = a.dy.data,
                          .b = a.w.data,
                          .c = a.dx.data,
                          .type = a.dy.dtype,
                          .c_type = a.dx.dtype,
                          .epilogue = by_tanh ? Epilogue::dgelu : Epilogue::none,
                          .pre_activation = a.pre_activation.data};
    const auto through_activation = [&] {
        activate_backward(stream_of(context), a.activation, a.pre_activation, a.dx);
    };
    device_of(context).matmul().run(context, product, through_activation);
    if (a.activation == Activation::gelu_erf) through_activation();
}

void linear_backward_weight(device::Context& context, const LinearBackwardWeight& a) {
    const i64 width = a.dy[1];
    const auto stream = stream_of(context);
    // The library overwrites a bias gradient: one that is to be added to is made beside it, in
    // front of what the product may use.
    const bool beside = a.dbias && a.accumulate;
    Scratch scratch(context.workspace);
    void* const fresh = beside ? scratch.take<float>(width) : a.dbias.data;
    device::Context rest{context.device, scratch.rest(), context.times};
    const Product product{.form = Form::xt_w,
                          .rows = width,
                          .cols = a.x[1],
                          .depth = a.dy[0],
                          .a = a.dy.data,
                          .b = a.x.data,
                          .c = a.dw.data,
                          .accumulate = a.accumulate,
                          .type = a.dy.dtype,
                          .c_type = a.dw.dtype,
                          .epilogue = a.dbias ? Epilogue::bias_gradient : Epilogue::none,
                          .bias_gradient = fresh};
    const bool fused = device_of(context).matmul().run(rest, product, [&] {
        column_sums(stream, rest.workspace, a.dy, a.dbias.as<float>(), a.accumulate);
    });
    if (fused && beside) {
        add_parts(stream, {static_cast<const float*>(fresh), 1, width, width}, a.dbias.as<float>(),
                  true);
    }
}

}  // namespace lm::cuda::ops
