// SPDX-License-Identifier: Apache-2.0
// Operations on flat ranges: sums in fp64, fingerprints, fill, cast, scale. All are bound by memory
// bandwidth. Each thread processes several elements at a time in a grid-stride loop.
#include "base/element_hash.hpp"
#include "cost/cuda_scratch.hpp"
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

using device::Cast;
using device::CountZeros;
using device::Fill;
using device::Fingerprint;
using device::Scale;
using device::SumSquares;
using device::WeightedSum;

constexpr int threads = 256;
constexpr int width = 8;  // elements that a thread processes at a time
// Twice the number of blocks that 132 SMs can hold at once (8 blocks of 256 threads each).
constexpr i64 max_blocks = i64{132} * 16;

dim3 blocks_of(i64 n) {
    return blocks_for(n, threads * width, max_blocks);
}

// ---- Sums --------------------------------------------------------------------------------------

// The term that an element contributes to a sum. `weight`: the element of the second range; 0
// without a second range.
struct Square {
    __device__ double operator()(float x, float) const { return static_cast<double>(x) * x; }
};
struct Product {
    __device__ double operator()(float x, float weight) const {
        return static_cast<double>(x) * weight;
    }
};
struct Zero {
    __device__ double operator()(float x, float) const { return x == 0.0F ? 1.0 : 0.0; }
};

// partial[blockIdx.x] = the sum of this block's terms. The grid and the order of the sum depend on
// n only. `weight` may be nullptr.
template <typename Term>
__global__ void sum_kernel(const float* x, const float* weight, i64 n, bool vectors,
                           double* partial) {
    double sum = 0;
    for_grid_turns<width>(n, vectors, [&]<int count>(i64 at) {
        float a[count];
        float b[count] = {};
        load(x + at, a);
        if (weight != nullptr) load(weight + at, b);
        double turn = 0;
        for (int i = 0; i < count; ++i) turn += Term()(a[i], b[i]);
        sum += turn;
    });
    sum = block_reduce<threads, Add>(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// out = (accumulate ? out : 0) + the sum of `count` partial sums, by one block.
__global__ void sum_of_sums_kernel(const double* partial, int count, double* out, bool accumulate) {
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) sum += partial[i];
    sum = block_reduce<threads, Add>(sum);
    if (threadIdx.x == 0) *out = accumulate ? *out + sum : sum;
}

// out = (accumulate ? out : 0) + the sum of Term over view and weights. view: [n] fp32; weights:
// [n] fp32 or empty; out: [1] fp64.
template <typename Term>
void reduce(device::Context& context, const device::View& view, const device::View& weights,
            const device::View& out, bool accumulate) {
    const float* const x = pointer<const float>(view);
    const float* const weight = pointer<const float>(weights);
    const i64 n = view.numel();
    const dim3 blocks = blocks_for(n, threads * width * 4, cost::cuda_sum_blocks);
    double* const partial = arena_of(context.workspace).reserve<double>(blocks.x);
    launch(stream_of(context), sum_kernel<Term>, blocks, dim3(threads), 0, x, weight, n,
           aligned(x) && aligned(weight), partial);
    launch(stream_of(context), sum_of_sums_kernel, dim3(1), dim3(threads), 0, partial,
           static_cast<int>(blocks.x), out.as<double>(), accumulate);
}

// ---- Fingerprints ------------------------------------------------------------------------------

// The 64-bit type that atomicAdd() takes.
using Sum64 = unsigned long long;

// The bits of `n` elements, which are read in one access.
template <typename Bits, int n>
struct alignas(n * sizeof(Bits)) BitsPack {
    Bits values[n];
};

// out += the sum of the hashes of x, [n] elements with bits of the type Bits. The sum is modulo
// 2^64, so the order of the blocks has no effect. `vectors`: x is aligned to 16 bytes.
template <typename Bits>
__global__ void fingerprint_kernel(const Bits* x, i64 n, bool vectors, i64 first_index,
                                   Sum64* out) {
    constexpr int per_turn = 16 / static_cast<int>(sizeof(Bits));
    Sum64 sum = 0;
    for_grid_turns<per_turn>(n, vectors, [&]<int count>(i64 at) {
        const auto pack = *reinterpret_cast<const BitsPack<Bits, count>*>(x + at);
#pragma unroll
        for (int i = 0; i < count; ++i) {
            sum += element_hash(static_cast<u64>(first_index + at + i), pack.values[i]);
        }
    });
    sum = block_reduce<threads, Add>(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

template <typename Bits>
void start_fingerprint(device::Context& context, const Fingerprint& a) {
    const auto* const x = pointer<const Bits>(a.x);
    const i64 n = a.x.numel();
    launch(stream_of(context), fingerprint_kernel<Bits>, blocks_of(n), dim3(threads), 0, x, n,
           aligned(x), a.first_index, pointer<Sum64>(a.out));
}

// ---- Element by element ------------------------------------------------------------------------

template <typename T>
__global__ void fill_kernel(T* x, i64 n, bool vectors, float value) {
    for_grid_turns<width>(n, vectors, [&]<int count>(i64 at) {
        float a[count];
        for (int i = 0; i < count; ++i) a[i] = value;
        store(x + at, a);
    });
}

template <typename T, typename U>
__global__ void cast_kernel(const T* x, U* y, i64 n, bool vectors) {
    for_grid_turns<width>(n, vectors, [&]<int count>(i64 at) {
        float a[count];
        load(x + at, a);
        store(y + at, a);
    });
}

template <typename T>
__global__ void scale_kernel(T* x, i64 n, bool vectors, float factor) {
    for_grid_turns<width>(n, vectors, [&]<int count>(i64 at) {
        float a[count];
        load(x + at, a);
        for (int i = 0; i < count; ++i) a[i] *= factor;
        store(x + at, a);
    });
}

}  // namespace

namespace ops {

void sum_squares(device::Context& context, const SumSquares& a) {
    reduce<Square>(context, a.x, {}, a.out, a.accumulate);
}

void weighted_sum(device::Context& context, const WeightedSum& a) {
    reduce<Product>(context, a.x, a.weight, a.out, a.accumulate);
}

void count_zeros(device::Context& context, const CountZeros& a) {
    reduce<Zero>(context, a.x, {}, a.out, a.accumulate);
}

void fingerprint(device::Context& context, const Fingerprint& a) {
    if (size_of(a.x.dtype) == 2) return start_fingerprint<u16>(context, a);
    start_fingerprint<u32>(context, a);
}

void fill(device::Context& context, const Fill& a) {
    const i64 n = a.x.numel();
    with_type(a.x.dtype, [&]<typename T>(T) {
        T* const x = pointer<T>(a.x);
        launch(stream_of(context), fill_kernel<T>, blocks_of(n), dim3(threads), 0, x, n,
               aligned(x, width), static_cast<float>(a.value));
    });
}

void cast(device::Context& context, const Cast& a) {
    const i64 n = a.x.numel();
    with_type(a.x.dtype, [&]<typename T>(T) {
        with_type(a.y.dtype, [&]<typename U>(U) {
            const T* const x = pointer<T>(a.x);
            U* const y = pointer<U>(a.y);
            launch(stream_of(context), cast_kernel<T, U>, blocks_of(n), dim3(threads), 0, x, y, n,
                   aligned(x, width) && aligned(y, width));
        });
    });
}

void scale(device::Context& context, const Scale& a) {
    const i64 n = a.x.numel();
    with_type(a.x.dtype, [&]<typename T>(T) {
        T* const x = pointer<T>(a.x);
        launch(stream_of(context), scale_kernel<T>, blocks_of(n), dim3(threads), 0, x, n,
               aligned(x, width), static_cast<float>(a.factor));
    });
}

}  // namespace ops
}  // namespace lm::cuda
