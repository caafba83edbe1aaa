// SPDX-License-Identifier: Apache-2.0
// Activation functions and gated units. Part of all_loops.hpp.
//
// GELU by tanh is computed as x / (1 + exp(-2u)), which has no cancellation for negative x. Its
// relative error is below 1e-6. GELU by erf is x times the normal distribution function, whose
// lower half has no cancellation either.
#pragma once

namespace lm::cpu {
namespace {

// gelu(x) = x s with s = 1 / (1 + e), e = exp(-2u), u = sqrt(2/pi) (x + 0.044715 x^3).
LM_INLINE Vec gelu_exponential(Vec x) {
    return exponential(x * fma(x * x, splat(-0.0713548162726F), splat(-1.59576912161F)));
}

void gelu_tanh(float* pre, const float* bias, float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        Vec x = get(pre + i, lanes);
        if (bias) {
            x += get(bias + i, lanes);
            put(pre + i, x, lanes);
        }
        put(y + i, x / (1.0F + gelu_exponential(x)), lanes);
    });
}

// gelu' = s + x s (1 - s) 2u', with 1 - s computed as e s, which has no cancellation.
struct GeluTanh {
    Vec share;  // s
    Vec derivative;
};
LM_INLINE GeluTanh gelu_tanh_at(Vec x) {
    const Vec e = gelu_exponential(x);
    const Vec s = 1.0F / (1.0F + e);
    const Vec slope = fma(x * x, splat(0.2140644488178F), splat(1.59576912161F));
    return {s, fma(x * slope, e * s * s, s)};
}

void gelu_tanh_backward(const float* pre, float* dx, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(pre + i, lanes);
        put(dx + i, get(dx + i, lanes) * gelu_tanh_at(x).derivative, lanes);
    });
}

void gelu_erf(float* pre, const float* bias, float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        Vec x = get(pre + i, lanes);
        if (bias) {
            x += get(bias + i, lanes);
            put(pre + i, x, lanes);
        }
        put(y + i, x * normal(x).below, lanes);
    });
}

void gelu_erf_backward(const float* pre, float* dx, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(pre + i, lanes);
        const Normal at = normal(x);
        put(dx + i, get(dx + i, lanes) * fma(x, at.density, at.below), lanes);
    });
}

// max(x, 0)^2 has the derivative 2 max(x, 0). NaN remains NaN.
void squared_relu(float* pre, const float* bias, float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        Vec x = get(pre + i, lanes);
        if (bias) {
            x += get(bias + i, lanes);
            put(pre + i, x, lanes);
        }
        const Vec kept = larger(splat(0.0F), x);
        put(y + i, kept * kept, lanes);
    });
}

void squared_relu_backward(const float* pre, float* dx, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = larger(splat(0.0F), get(pre + i, lanes));
        put(dx + i, get(dx + i, lanes) * (x + x), lanes);
    });
}

void geglu(const float* gate, const float* up, float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(gate + i, lanes);
        put(y + i, x * normal(x).below * get(up + i, lanes), lanes);
    });
}

void geglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                    i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(gate + i, lanes);
        const Normal at = normal(x);
        const Vec d = get(dy + i, lanes);
        put(dgate + i, d * get(up + i, lanes) * fma(x, at.density, at.below), lanes);
        put(dup + i, d * x * at.below, lanes);
    });
}

void geglu_tanh(const float* gate, const float* up, float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(gate + i, lanes);
        put(y + i, x / (1.0F + gelu_exponential(x)) * get(up + i, lanes), lanes);
    });
}

void geglu_tanh_backward(const float* gate, const float* up, const float* dy, float* dgate,
                         float* dup, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(gate + i, lanes);
        const GeluTanh at = gelu_tanh_at(x);
        const Vec d = get(dy + i, lanes);
        put(dgate + i, d * get(up + i, lanes) * at.derivative, lanes);
        put(dup + i, d * x * at.share, lanes);
    });
}

void swiglu(const float* gate, const float* up, float* y, i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(gate + i, lanes);
        put(y + i, x * sigmoid(x) * get(up + i, lanes), lanes);
    });
}

// silu' = s (1 + x (1 - s)), with 1 - s computed as sigmoid(-x), which has no cancellation.
void swiglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                     i64 n) {
    for_vectors(n, [&](i64 i, i64 lanes) LM_BODY {
        const Vec x = get(gate + i, lanes);
        const Vec s = sigmoid(x);
        const Vec d = get(dy + i, lanes);
        const Vec slope = s * fma(x, sigmoid(-x), splat(1.0F));
        put(dgate + i, d * get(up + i, lanes) * slope, lanes);
        put(dup + i, d * x * s, lanes);
    });
}

ActivationLoops activation_loops(device::Activation activation) {
    using device::Activation;
    switch (activation) {
        case Activation::gelu_tanh:
            return {gelu_tanh, gelu_tanh_backward};
        case Activation::gelu_erf:
            return {gelu_erf, gelu_erf_backward};
        case Activation::squared_relu:
            return {squared_relu, squared_relu_backward};
        case Activation::none:
        case Activation::swiglu:
        case Activation::geglu:
        case Activation::geglu_tanh:
            return {};
    }
    __builtin_unreachable();
}

GateLoops gate_loops(device::Activation activation) {
    using device::Activation;
    switch (activation) {
        case Activation::swiglu:
            return {swiglu, swiglu_backward};
        case Activation::geglu:
            return {geglu, geglu_backward};
        case Activation::geglu_tanh:
            return {geglu_tanh, geglu_tanh_backward};
        case Activation::none:
        case Activation::gelu_tanh:
        case Activation::gelu_erf:
        case Activation::squared_relu:
            return {};
    }
    __builtin_unreachable();
}

}  // namespace
}  // namespace lm::cpu
