// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding, in place. The kernel is bound by memory bandwidth. A block processes
// one token, a thread eight pairs at a time, or one pair if they are not aligned. For all heads but
// the first, the token's angles are read from the L1 cache. Both elements of a pair are read and
// written by the same thread, so working in place is safe.
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

using device::Rotary;

constexpr int threads = 128;
constexpr int width = 8;  // pairs that a thread processes at a time

// Rotates the n pairs in the 2n elements of a and b: (a[k], b[k]) or, if `interleaved`, the
// adjacent elements of a, then of b.
template <bool interleaved, int n>
__device__ void rotate(float (&a)[n], float (&b)[n], const float (&cosine)[n],
                       const float (&sine)[n], float sign) {
    const auto adjacent = [&](int i) -> float& { return i < n ? a[i] : b[i - n]; };
#pragma unroll
    for (int k = 0; k < n; ++k) {
        float& first = interleaved ? adjacent(2 * k) : a[k];
        float& second = interleaved ? adjacent(2 * k + 1) : b[k];
        const float t = sign * sine[k];
        const float old = first;
        first = old * cosine[k] - second * t;
        second = second * cosine[k] + old * t;
    }
}

struct RotaryShape {
    i64 row_width;
    int n_heads;
    int head_dim;
    int half;  // pairs of a head
    float sign;
};

template <typename T, int n, bool interleaved>
__global__ void rotary_kernel(T* x, const i32* positions, const float* angles, RotaryShape shape) {
    const int half = shape.half;
    const int turns = half / n;  // iterations for one head
    T* const row = x + blockIdx.x * shape.row_width;
    const float* const cosines = angles + i64{positions[blockIdx.x]} * (2 * half);
    for (int i = static_cast<int>(threadIdx.x); i < shape.n_heads * turns; i += threads) {
        const int pair = i % turns * n;
        T* const first = row + i64{i / turns} * shape.head_dim + (interleaved ? 2 * pair : pair);
        T* const second = first + (interleaved ? n : half);
        float a[n];
        float b[n];
        float cosine[n];
        float sine[n];
        load(first, a);
        load(second, b);
        load(cosines + pair, cosine);
        load(cosines + half + pair, sine);
        rotate<interleaved>(a, b, cosine, sine, shape.sign);
        store(first, a);
        store(second, b);
    }
}

template <typename T, bool interleaved>
void run_rotary(device::Context& context, const Rotary& a) {
    T* const x = pointer<T>(a.x);
    const float* const angles = a.angles.as<float>();
    const i64 half = a.angles[1] / 2;
    const bool vectors = half % width == 0 && a.head_dim % width == 0 && a.x[2] % width == 0 &&
                         aligned(x, width) && aligned(angles, width);
    const RotaryShape shape{.row_width = a.x[2],
                            .n_heads = static_cast<int>(a.n_heads),
                            .head_dim = static_cast<int>(a.head_dim),
                            .half = static_cast<int>(half),
                            .sign = a.inverse ? -1.0F : 1.0F};
    launch(stream_of(context),
           vectors ? rotary_kernel<T, width, interleaved> : rotary_kernel<T, 1, interleaved>,
           dim3(static_cast<unsigned>(a.x[0] * a.x[1])), dim3(threads), 0, x, a.positions.as<i32>(),
           angles, shape);
}

}  // namespace

void ops::rotary(device::Context& context, const Rotary& a) {
    with_type(a.x.dtype, [&]<typename T>(T) {
        if (a.interleaved) return run_rotary<T, true>(context, a);
        run_rotary<T, false>(context, a);
    });
}

}  // namespace lm::cuda
