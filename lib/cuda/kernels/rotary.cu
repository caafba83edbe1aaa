// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding, in place. Bound by memory bandwidth. A block processes one token, a
// thread eight pairs at a time; the token's angles are read from the L1 cache for all heads but the
// first. A thread reads and writes both elements of its pairs, so that working in place is safe.
#include "cuda/cuda_device.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/vector.cuh"
#include "cuda/ops.hpp"

namespace lm::cuda {
namespace {

using device::Rotary;

constexpr int threads = 128;
constexpr int width = 8;  // pairs that a thread processes at a time

template <typename T, int n>
__global__ void rotary_kernel(T* x, const i32* positions, const float* angles, i64 row_width,
                              int n_heads, int head_dim, float sign) {
    const int half = head_dim / 2;
    const int turns = half / n;  // iterations for one head
    T* const row = x + blockIdx.x * row_width;
    const float* const cosines = angles + i64{positions[blockIdx.x]} * head_dim;
    for (int i = static_cast<int>(threadIdx.x); i < n_heads * turns; i += threads) {
        const int pair = i % turns * n;
        T* const first = row + i64{i / turns} * head_dim + pair;
        float a[n];
        float b[n];
        float cosine[n];
        float sine[n];
        load(first, a);
        load(first + half, b);
        load(cosines + pair, cosine);
        load(cosines + half + pair, sine);
#pragma unroll
        for (int k = 0; k < n; ++k) {
            const float t = sign * sine[k];
            const float old = a[k];
            a[k] = old * cosine[k] - b[k] * t;
            b[k] = b[k] * cosine[k] + old * t;
        }
        store(first, a);
        store(first + half, b);
    }
}

}  // namespace

void ops::rotary(device::Context& context, const Rotary& a) {
    with_type(a.x.dtype, [&]<typename T>(T) {
        T* const x = pointer<T>(a.x);
        const i32* const positions = a.positions.as<i32>();
        const float* const angles = a.angles.as<float>();
        const bool vectors = a.head_dim / 2 % width == 0 && a.x[2] % width == 0 &&
                             aligned(x, width) && aligned(angles, width);
        launch(stream_of(context), vectors ? rotary_kernel<T, width> : rotary_kernel<T, 1>,
               dim3(static_cast<unsigned>(a.x[0] * a.x[1])), dim3(threads), 0, x, positions, angles,
               a.x[2], static_cast<int>(a.n_heads), static_cast<int>(a.head_dim),
               a.inverse ? -1.0F : 1.0F);
    });
}

}  // namespace lm::cuda
