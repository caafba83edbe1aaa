// SPDX-License-Identifier: Apache-2.0
// Operations on flat ranges: sums in double precision, fill, cast, scale.
#include <algorithm>

#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"

namespace lm::cpu {
namespace {

using device::Cast;
using device::CountZeros;
using device::Fill;
using device::Scale;
using device::SumSquares;
using device::WeightedSum;

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

}  // namespace

namespace reference {

void sum_squares(device::Context& context, const SumSquares& a) {
    (void)context;
    with_type(a.x.dtype, [&]<typename T>(T) {
        put_sum(a.out, square_sum(a.x.as<T>(), a.x.numel()), a.accumulate);
    });
}

void weighted_sum(device::Context& context, const WeightedSum& a) {
    (void)context;
    with_type(a.x.dtype, [&]<typename T>(T) {
        put_sum(a.out, dot(a.x.as<T>(), a.weight.as<T>(), a.x.numel()), a.accumulate);
    });
}

void count_zeros(device::Context& context, const CountZeros& a) {
    (void)context;
    with_type(a.x.dtype, [&]<typename T>(T) {
        const auto zeros = std::ranges::count(a.x.span<T>(), T{0});
        put_sum(a.out, static_cast<double>(zeros), a.accumulate);
    });
}

void fill(device::Context& context, const Fill& a) {
    (void)context;
    with_type(a.x.dtype,
              [&]<typename T>(T) { std::ranges::fill(a.x.span<T>(), static_cast<T>(a.value)); });
}

void cast(device::Context& context, const Cast& a) {
    (void)context;
    with_type(a.x.dtype, [&]<typename T>(T) {
        with_type(a.y.dtype, [&]<typename U>(U) {
            std::ranges::transform(a.x.span<T>(), a.y.as<U>(),
                                   [](T value) { return static_cast<U>(value); });
        });
    });
}

void scale(device::Context& context, const Scale& a) {
    (void)context;
    with_type(a.x.dtype, [&]<typename T>(T) {
        for (T& value : a.x.span<T>()) value = static_cast<T>(value * a.factor);
    });
}

}  // namespace reference

namespace fast {

void sum_squares(device::Context& context, const SumSquares& a) {
    reference::sum_squares(context, a);
}
void weighted_sum(device::Context& context, const WeightedSum& a) {
    reference::weighted_sum(context, a);
}
void count_zeros(device::Context& context, const CountZeros& a) {
    reference::count_zeros(context, a);
}
void fill(device::Context& context, const Fill& a) {
    reference::fill(context, a);
}
void cast(device::Context& context, const Cast& a) {
    reference::cast(context, a);
}
void scale(device::Context& context, const Scale& a) {
    reference::scale(context, a);
}

}  // namespace fast
}  // namespace lm::cpu
