// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov & Hutter, 2019) over a flat range of parameters: reads gradient, moments and
// master once, writes moments, master and the 16-bit weight once.
#include <cmath>

#include "cuda/cuda_device.hpp"
#include "cuda/ops.hpp"
#include "cuda/vector.cuh"

namespace lm::cuda {
namespace {

using device::AdamW;

constexpr int threads = 256;
constexpr int width = 4;

struct Step {
    float grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, correct1, correct2, eps, lr,
        weight_decay;
};

Step step_of(const AdamW& a) {
    const auto t = static_cast<double>(a.step);
    return {.grad_scale = static_cast<float>(a.grad_scale),
            .beta1 = static_cast<float>(a.beta1),
            .one_minus_beta1 = static_cast<float>(1.0 - a.beta1),
            .beta2 = static_cast<float>(a.beta2),
            .one_minus_beta2 = static_cast<float>(1.0 - a.beta2),
            .correct1 = static_cast<float>(1.0 / (1.0 - std::pow(a.beta1, t))),
            .correct2 = static_cast<float>(1.0 / (1.0 - std::pow(a.beta2, t))),
            .eps = static_cast<float>(a.eps),
            .lr = static_cast<float>(a.lr),
            .weight_decay = static_cast<float>(a.weight_decay)};
}

// `weight` may be none.
template <typename T>
__global__ void adamw_kernel(float* master, T* weight, const float* grad, float* m, float* v, i64 n,
                             bool vectors, Step s) {
    for_grid_turns<width>(n, vectors, [&]<int count>(i64 at) {
        float g[count], first[count], second[count], p[count];
        load(grad + at, g);
        load(m + at, first);
        load(v + at, second);
        load(master + at, p);
        for (int i = 0; i < count; ++i) {
            g[i] *= s.grad_scale;
            first[i] = s.beta1 * first[i] + s.one_minus_beta1 * g[i];
            second[i] = s.beta2 * second[i] + s.one_minus_beta2 * g[i] * g[i];
            const float step = first[i] * s.correct1 / (sqrtf(second[i] * s.correct2) + s.eps);
            p[i] -= s.lr * (step + s.weight_decay * p[i]);
        }
        store(m + at, first);
        store(v + at, second);
        store(master + at, p);
        if (weight != nullptr) store(weight + at, p);
    });
}

}  // namespace

void ops::adamw(device::Context& context, const AdamW& a) {
    const i64 n = a.master[0];
    float* const master = a.master.as<float>();
    const float* const grad = a.grad.as<float>();
    float* const m = a.m.as<float>();
    float* const v = a.v.as<float>();
    const bool vectors = aligned(master) && aligned(grad) && aligned(m) && aligned(v);
    with_type(a.weight ? a.weight.dtype : DType::fp32, [&]<typename T>(T) {
        T* const weight = pointer<T>(a.weight);
        launch(stream_of(context), adamw_kernel<T>, blocks_for(n, threads * width), dim3(threads),
               0, master, weight, grad, m, v, n, vectors && aligned(weight, width), step_of(a));
    });
}

}  // namespace lm::cuda
