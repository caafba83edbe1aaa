// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov & Hutter, 2019) over a rank's parameters: reads gradient, moments and master
// once, writes moments, master and the 16-bit weight once. The table of parts is passed as a kernel
// argument, so that one launch or a few launches update a whole model.
#include <algorithm>

#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/vector.cuh"
#include "device/adamw_step.hpp"

namespace lm::cuda {
namespace {

using device::AdamW;
using device::AdamWPart;
using device::AdamWStep;

constexpr int threads = 256;
constexpr int width = 4;
constexpr i64 tile = i64{threads} * width * 4;  // elements that one block updates

// The parts of one launch; blocks first_block[i] to first_block[i + 1] - 1 update part i. With 128
// parts the arguments of the kernel stay below the 4 KiB that CUDA allows.
constexpr int max_parts = 128;
struct Parts {
    i64 param_begin[max_parts];
    i64 state_begin[max_parts];
    i64 size[max_parts];
    int first_block[max_parts + 1];
    bool decay[max_parts];
    bool vectors[max_parts];  // the part is aligned for 16-byte accesses
    int n = 0;
};

template <typename T>
struct Arrays {
    float* master;  // indexed by param_begin if weight is nullptr, else by state_begin
    T* weight;
    const float* grad;
    float* m;
    float* v;
};

// Returns the part that this block updates, by binary search in first_block.
__device__ inline int part_of_block(const Parts& parts) {
    const int block = static_cast<int>(blockIdx.x);
    int part = 0;
    for (int end = parts.n; end - part > 1;) {
        const int middle = (part + end) / 2;
        (parts.first_block[middle] <= block ? part : end) = middle;
    }
    return part;
}

template <typename T>
__global__ void __launch_bounds__(threads)
    adamw_kernel(const __grid_constant__ Parts parts, Arrays<T> a, AdamWStep s) {
    const int part = part_of_block(parts);
    const i64 begin = (i64{blockIdx.x} - parts.first_block[part]) * tile;
    const i64 param = parts.param_begin[part] + begin;
    const i64 state = parts.state_begin[part] + begin;
    const i64 left = parts.size[part] - begin;
    const float* const grad = a.grad + param;
    float* const m = a.m + state;
    float* const v = a.v + state;
    float* const master = a.master + (a.weight != nullptr ? state : param);
    const float decay = parts.decay[part] ? s.weight_decay : 0.0F;
    const i64 n = left < tile ? left : tile;
    for_turns<width>(threadIdx.x, threads, n, parts.vectors[part], [&]<int count>(i64 at) {
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
            p[i] -= s.lr * (step + decay * p[i]);
        }
        store(m + at, first);
        store(v + at, second);
        store(master + at, p);
        if (a.weight != nullptr) store(a.weight + param + at, p);
    });
}

// Returns the first parts of `left` that are not empty, at most max_parts, and removes them from
// `left`.
Parts next_parts(std::span<const AdamWPart>& left, bool aligned_arrays) {
    Parts parts;
    i64 n_blocks = 0;
    for (; !left.empty() && parts.n < max_parts; left = left.subspan(1)) {
        const AdamWPart& part = left.front();
        if (part.size == 0) continue;
        const int i = parts.n++;
        parts.param_begin[i] = part.param_begin;
        parts.state_begin[i] = part.state_begin;
        parts.size[i] = part.size;
        parts.decay[i] = part.decay;
        parts.vectors[i] =
            aligned_arrays && part.param_begin % width == 0 && part.state_begin % width == 0;
        parts.first_block[i] = static_cast<int>(n_blocks);
        n_blocks += ceil_div(part.size, tile);
    }
    parts.first_block[parts.n] = static_cast<int>(n_blocks);
    return parts;
}

}  // namespace

void ops::adamw(device::Context& context, const AdamW& a) {
    with_type(a.weight ? a.weight.dtype : DType::fp32, [&]<typename T>(T) {
        const Arrays<T> arrays{a.master.as<float>(), pointer<T>(a.weight), a.grad.as<float>(),
                               a.m.as<float>(), a.v.as<float>()};
        const bool vectors = aligned(arrays.master) && aligned(arrays.weight, width) &&
                             aligned(arrays.grad) && aligned(arrays.m) && aligned(arrays.v);
        for (std::span<const AdamWPart> left = a.parts; !left.empty();) {
            const Parts parts = next_parts(left, vectors);
            launch(stream_of(context), adamw_kernel<T>,
                   dim3(static_cast<unsigned>(parts.first_block[parts.n])), dim3(threads), 0, parts,
                   arrays, device::adamw_step(a));
        }
    });
}

}  // namespace lm::cuda
