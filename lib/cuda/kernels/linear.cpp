// SPDX-License-Identifier: Apache-2.0
// Linear layers: products by cuBLASLt (cublas_matmul.hpp), with separate kernels for bias and
// activation where the product does not fuse them. A separate activation reads the matrix once
// more. It is needed for GELU by erf and squared ReLU, for fp32, and for activations that backward
// recomputes (Epilogue in cublas_matmul.hpp states why). For a layer with M rows, N outputs and K
// inputs, forward is a GEMM with m = M, n = N, k = K.
#include "cuda/device/cublas_matmul.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/activation.hpp"
#include "cuda/kernels/column_sums.hpp"

namespace lm::cuda::ops {

using device::Activation;
using device::LinearBackwardInput;
using device::LinearBackwardWeight;
using device::LinearForward;

namespace {

// Returns the product out = x w^T with `epilogue`. out: [M, N] compute; x: [M, K]; w: [N, K].
FusedProduct forward_product(const LinearForward& a, const device::View& out, Epilogue epilogue) {
    return {.form = GemmForm::nt,
            .m = a.x[0],
            .n = a.w[0],
            .k = a.x[1],
            .a = a.x.data,
            .b = a.w.data,
            .c = out.data,
            .type = a.x.dtype,
            .c_type = out.dtype,
            .epilogue = epilogue,
            .bias = a.bias.data,
            .pre_activation = a.pre_activation.data};
}

// Computes the product with bias, then the activation in a separate kernel.
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
    const FusedProduct product = forward_product(a, a.y, gelu);
    CublasMatmul& matmul = device_of(context).matmul();
    if (a.activation == Activation::gelu_tanh && !a.recomputed && CublasMatmul::can_fuse(product)) {
        matmul.run(context, product, [&] { forward_apart(context, a); });
    } else {
        forward_apart(context, a);
    }
}

void linear_backward_input(device::Context& context, const LinearBackwardInput& a) {
    const bool by_tanh = a.activation == Activation::gelu_tanh;
    const FusedProduct product{.form = GemmForm::nn,
                               .m = a.dy[0],
                               .n = a.w[1],
                               .k = a.w[0],
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
    if (a.activation != Activation::none && !by_tanh) through_activation();
}

void linear_backward_weight(device::Context& context, const LinearBackwardWeight& a) {
    const i64 width = a.dy[1];
    const auto stream = stream_of(context);
    // The bias_gradient epilogue overwrites its output. To accumulate, the epilogue writes its
    // result to the start of the workspace, and a kernel then adds the result to dbias. The product
    // gets the rest of the workspace.
    const bool separate = a.dbias && a.accumulate;
    device::WorkspaceArena scratch = arena_of(context.workspace);
    void* const fresh = separate ? scratch.reserve<float>(width) : a.dbias.data;
    device::Context rest{context.device, scratch.rest(), context.times};
    const FusedProduct product{.form = GemmForm::tn,
                               .m = width,
                               .n = a.x[1],
                               .k = a.dy[0],
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
    if (fused && separate) {
        add_parts(stream, {static_cast<const float*>(fresh), 1, width, width}, a.dbias.as<float>(),
                  true);
    }
}

}  // namespace lm::cuda::ops
