// SPDX-License-Identifier: Apache-2.0
// Activation functions in kernels: value and derivative, in fp32.
//
// GELU by tanh (Hendrycks & Gimpel, 2016) is computed as x / (1 + exp(-2u)), because
// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)). This needs one exponential and one division, and has no
// cancellation for negative x. __expf and __fdividef are accurate to a few units in the last place
// except for results close to 0. If the denominator overflows, the result is 0, the limit for
// x -> -infinity.
#pragma once

#include <cuda_runtime.h>

#include "device/ops.hpp"

namespace lm::cuda {

struct Slope {
    float value;  // f(x)
    float slope;  // f'(x)
};

__device__ inline float sigmoid(float x) {
    return __fdividef(1.0F, 1.0F + __expf(-x));
}

// silu(x) = x sigmoid(x)
struct Silu {
    __device__ static float value(float x) { return x * sigmoid(x); }
    __device__ static Slope slope(float x) {
        const float s = sigmoid(x);
        return {x * s, s * (1.0F + x * (1.0F - s))};
    }
};

struct GeluTanh {
    static constexpr float two_roots = 1.5957691216F;  // 2 sqrt(2 / pi)
    static constexpr float cubic = 0.044715F;
    __device__ static float value(float x) {
        return x * sigmoid(two_roots * (x + cubic * x * x * x));
    }
    __device__ static Slope slope(float x) {
        const float s = sigmoid(two_roots * (x + cubic * x * x * x));
        const float inner = two_roots * (1.0F + 3.0F * cubic * x * x);
        return {x * s, s + x * s * (1.0F - s) * inner};
    }
};

struct GeluErf {
    static constexpr float half_root = 0.70710678118F;  // sqrt(1/2)
    // Uses erfc(), because 1 + erf(x) cancels for negative x.
    __device__ static float normal_cdf(float x) { return 0.5F * erfcf(-x * half_root); }
    __device__ static float value(float x) { return x * normal_cdf(x); }
    __device__ static Slope slope(float x) {
        const float density = 0.39894228040F * __expf(-0.5F * x * x);
        const float c = normal_cdf(x);
        return {x * c, c + x * density};
    }
};

struct SquaredRelu {
    __device__ static float value(float x) { return x < 0.0F ? 0.0F : x * x; }
    __device__ static Slope slope(float x) {
        const float kept = x < 0.0F ? 0.0F : x;
        return {kept * kept, kept + kept};
    }
};

// Calls body(Function{}) with the function that `activation` selects. Does nothing for none and for
// a gated unit, which are no activations of a linear layer.
template <typename Body>
void with_activation(device::Activation activation, Body&& body) {
    using device::Activation;
    switch (activation) {
        case Activation::gelu_tanh:
            return body(GeluTanh{});
        case Activation::gelu_erf:
            return body(GeluErf{});
        case Activation::squared_relu:
            return body(SquaredRelu{});
        case Activation::none:
        case Activation::swiglu:
        case Activation::geglu:
        case Activation::geglu_tanh:
            return;
    }
}

// Calls body(Function{}) with the function of the gate. Does nothing for an activation without a
// gate.
template <typename Body>
void with_gate(device::Activation gate, Body&& body) {
    using device::Activation;
    switch (gate) {
        case Activation::swiglu:
            return body(Silu{});
        case Activation::geglu:
            return body(GeluErf{});
        case Activation::geglu_tanh:
            return body(GeluTanh{});
        case Activation::none:
        case Activation::gelu_tanh:
        case Activation::gelu_erf:
        case Activation::squared_relu:
            return;
    }
}

}  // namespace lm::cuda
