// SPDX-License-Identifier: Apache-2.0
// Operations on flat ranges: sums in fp64, fingerprints, fill, cast, scale.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/element_hash.hpp"
#include "cost/cpu_scratch.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::Cast;
using device::CountZeros;
using device::Fill;
using device::Fingerprint;
using device::Scale;
using device::SumSquares;
using device::WeightedSum;

// Sets `out`, [1] fp64, to the sum, or adds the sum to it.
void put_sum(const device::View& out, double sum, bool accumulate) {
    double& target = *out.as<double>();
    target = accumulate ? target + sum : sum;
}

template <typename T>
double square_sum(const T* x, i64 n) {
    double sum = 0;
    for (i64 i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
    return sum;
}

template <typename T>
double dot(const T* x, const T* weight, i64 n) {
    double sum = 0;
    for (i64 i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * weight[i];
    return sum;
}

// Returns the sum of the hashes of x[begin] to x[end - 1], whose bits have the type Bits. x: bytes
// of any alignment.
template <typename Bits>
u64 sum_of_hashes(const std::byte* x, i64 begin, i64 end, i64 first_index) {
    u64 sum = 0;
    for (i64 i = begin; i < end; ++i) {
        Bits bits = 0;
        std::memcpy(&bits, x + static_cast<size_t>(i) * sizeof bits, sizeof bits);
        sum += element_hash(static_cast<u64>(first_index + i), bits);
    }
    return sum;
}

// Returns the sum of the hashes of a.x[begin] to a.x[end - 1].
u64 sum_of_hashes(const Fingerprint& a, i64 begin, i64 end) {
    const auto* const x = static_cast<const std::byte*>(a.x.data);
    return size_of(a.x.dtype) == 2 ? sum_of_hashes<u16>(x, begin, end, a.first_index)
                                   : sum_of_hashes<u32>(x, begin, end, a.first_index);
}

}  // namespace

namespace reference {

void fingerprint(device::Context&, const Fingerprint& a) {
    *static_cast<u64*>(a.out.data) += sum_of_hashes(a, 0, a.x.numel());
}

void sum_squares(device::Context&, const SumSquares& a) {
    with_type(a.x.dtype, [&]<typename T>(T) {
        put_sum(a.out, square_sum(a.x.as<T>(), a.x.numel()), a.accumulate);
    });
}

void weighted_sum(device::Context&, const WeightedSum& a) {
    with_type(a.x.dtype, [&]<typename T>(T) {
        put_sum(a.out, dot(a.x.as<T>(), a.weight.as<T>(), a.x.numel()), a.accumulate);
    });
}

void count_zeros(device::Context&, const CountZeros& a) {
    with_type(a.x.dtype, [&]<typename T>(T) {
        const auto zeros = std::ranges::count(a.x.span<T>(), T{0});
        put_sum(a.out, static_cast<double>(zeros), a.accumulate);
    });
}

void fill(device::Context&, const Fill& a) {
    with_type(a.x.dtype,
              [&]<typename T>(T) { std::ranges::fill(a.x.span<T>(), static_cast<T>(a.value)); });
}

void cast(device::Context&, const Cast& a) {
    with_type(a.x.dtype, [&]<typename T>(T) {
        with_type(a.y.dtype, [&]<typename U>(U) {
            std::ranges::transform(a.x.span<T>(), a.y.as<U>(),
                                   [](T value) { return static_cast<U>(value); });
        });
    });
}

void scale(device::Context&, const Scale& a) {
    with_type(a.x.dtype, [&]<typename T>(T) {
        for (T& value : a.x.span<T>()) value = static_cast<T>(value * a.factor);
    });
}

}  // namespace reference

namespace fast {
namespace {

constexpr i64 grain = i64{1} << 16;

// Sums parts of [0, n) in parallel, then adds their sums by a fixed tree. The size of the parts
// depends on n only. `out`: [1] fp64.
template <typename SumOf>
void reduce(device::Context& context, i64 n, const device::View& out, bool accumulate,
            const SumOf& sum_of) {
    const i64 piece = std::max(grain, round_up(ceil_div(n, cost::max_flat_pieces), 64));
    const i64 count = ceil_div(n, piece);
    double* const sums = arena_of(context.workspace).reserve<double>(count);
    pool_of(context).run_ranges(n, piece, [&](i64 begin, i64 end, int) {
        sums[begin / piece] = sum_of(begin, end - begin);
    });
    for (i64 stride = 1; stride < count; stride *= 2) {
        for (i64 i = 0; i + stride < count; i += 2 * stride) sums[i] += sums[i + stride];
    }
    put_sum(out, count > 0 ? sums[0] : 0.0, accumulate);
}

// Calls body(first, count) for parts of [0, n), in parallel.
template <typename Body>
void for_all_pieces(device::Context& context, i64 n, const Body& body) {
    pool_of(context).run_ranges(n, grain, [&](i64 begin, i64 end, int) {
        for_pieces(end - begin, [&](i64 first, i64 count) { body(begin + first, count); });
    });
}

}  // namespace

void fingerprint(device::Context& context, const Fingerprint& a) {
    std::atomic<u64> sum = 0;  // modulo 2^64, so that the order of the parts has no effect
    pool_of(context).run_ranges(
        a.x.numel(), grain, [&](i64 begin, i64 end, int) { sum += sum_of_hashes(a, begin, end); });
    *static_cast<u64*>(a.out.data) += sum;
}

void sum_squares(device::Context& context, const SumSquares& a) {
    if (a.x.dtype != DType::fp32) no_such_type(a.x.dtype);
    const float* const x = a.x.as<float>();
    reduce(context, a.x.numel(), a.out, a.accumulate,
           [x](i64 begin, i64 n) { return vector_kernels().dot(x + begin, x + begin, n); });
}

void weighted_sum(device::Context& context, const WeightedSum& a) {
    if (a.x.dtype != DType::fp32) no_such_type(a.x.dtype);
    const float* const x = a.x.as<float>();
    const float* const weight = a.weight.as<float>();
    reduce(context, a.x.numel(), a.out, a.accumulate, [x, weight](i64 begin, i64 n) {
        return vector_kernels().dot(x + begin, weight + begin, n);
    });
}

void count_zeros(device::Context& context, const CountZeros& a) {
    if (a.x.dtype != DType::fp32) no_such_type(a.x.dtype);
    const float* const x = a.x.as<float>();
    reduce(context, a.x.numel(), a.out, a.accumulate, [x](i64 begin, i64 n) {
        return static_cast<double>(std::count(x + begin, x + begin + n, 0.0F));
    });
}

void fill(device::Context& context, const Fill& a) {
    if (!is_fast_type(a.x.dtype)) return reference::fill(context, a);
    const Target x(a.x);
    for_all_pieces(context, a.x.numel(), [&](i64 at, i64 n) {
        float scratch[row_piece];
        float* const row = x.row(at, scratch);
        std::fill(row, row + n, static_cast<float>(a.value));
        x.store(at, row, n);
    });
}

void cast(device::Context& context, const Cast& a) {
    if (!is_fast_type(a.x.dtype) || !is_fast_type(a.y.dtype)) return reference::cast(context, a);
    const Source x(a.x);
    const Target y(a.y);
    for_all_pieces(context, a.x.numel(), [&](i64 at, i64 n) {
        float scratch[row_piece];
        float* const row = y.row(at, scratch);
        x.copy(at, 1.0F, row, n);
        y.store(at, row, n);
    });
}

void scale(device::Context& context, const Scale& a) {
    if (!is_fast_type(a.x.dtype)) return reference::scale(context, a);
    const Source source(a.x);
    const Target x(a.x);
    const auto factor = static_cast<float>(a.factor);
    for_all_pieces(context, a.x.numel(), [&](i64 at, i64 n) {
        float scratch[row_piece];
        float* const row = x.row(at, scratch);
        source.row(at, n, row);
        vector_kernels().scale(row, factor, n);
        x.store(at, row, n);
    });
}

}  // namespace fast
}  // namespace lm::cpu
