// SPDX-License-Identifier: Apache-2.0
#include "device/ops.hpp"

#include "device/op_checks.hpp"
#include "device/op_times.hpp"

namespace lm::device {
namespace {

// Returns the FLOPs of the product of `rows`, [M, K] compute, and `weight`, [N, K] compute.
double product_flops(const View& rows, const View& weight) {
    return 2.0 * static_cast<double>(rows[0]) * static_cast<double>(weight.numel());
}

// Returns the FLOPs of `products` matrix products of T x T x D for each head, where `out` is [B, T,
// H * D] compute. The causal mask halves the FLOPs. Forward has 2 products (scores, weighted
// values); backward has 5, because it recomputes the scores.
double attention_flops(const View& out, i64 products) {
    return static_cast<double>(products) * static_cast<double>(out.numel()) *
           static_cast<double>(out[1]);
}

template <typename Args>
double flops_of(const Args&) {
    return 0.0;
}
template <>
double flops_of(const LinearForward& args) {
    return product_flops(args.x, args.w);
}
template <>
double flops_of(const LinearBackwardInput& args) {
    return product_flops(args.dy, args.w);
}
template <>
double flops_of(const LinearBackwardWeight& args) {
    return product_flops(args.dy, args.dw);
}
template <>
double flops_of(const AttentionForward& args) {
    return attention_flops(args.out, 2);
}
template <>
double flops_of(const AttentionBackward& args) {
    return attention_flops(args.dout, 5);
}

template <typename Args>
void call(Context& context, const Args& args, Op op, void (&run)(Context&, const Args&)) {
    check(args);
    if (!context.times) return run(context, args);
    OpTime& time = (*context.times)[op];
    ++time.calls;
    time.flops += flops_of(args);
    context.device.measure([&] { run(context, args); }, time.seconds);
}

constexpr std::string_view op_names[] = {
#define LM_OP_NAME(name, Args) #name,
    LM_OPS(LM_OP_NAME)
#undef LM_OP_NAME
};

}  // namespace

std::string_view name_of(Op op) {
    return op_names[static_cast<size_t>(op)];
}

#define LM_OP_CALL(name, Args)                                    \
    void name(Context& context, const Args& args) {               \
        call(context, args, Op::name, context.device.ops().name); \
    }
LM_OPS(LM_OP_CALL)
#undef LM_OP_CALL

}  // namespace lm::device
