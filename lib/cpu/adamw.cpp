// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov & Hutter, 2019) over a flat range of parameters.
#include <cmath>

#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::AdamW;

template <typename T>
void update(const AdamW& a) {
    const double correct1 = 1.0 / (1.0 - std::pow(a.beta1, static_cast<double>(a.step)));
    const double correct2 = 1.0 / (1.0 - std::pow(a.beta2, static_cast<double>(a.step)));
    T* const weight = maybe<T>(a.weight);
    for (i64 i = 0; i < a.master[0]; ++i) {
        const double g = a.grad_scale * a.grad.as<T>()[i];
        const double m = a.beta1 * a.m.as<T>()[i] + (1.0 - a.beta1) * g;
        const double v = a.beta2 * a.v.as<T>()[i] + (1.0 - a.beta2) * g * g;
        const double p = a.master.as<T>()[i];
        const double step = m * correct1 / (std::sqrt(v * correct2) + a.eps);
        a.m.as<T>()[i] = static_cast<T>(m);
        a.v.as<T>()[i] = static_cast<T>(v);
        a.master.as<T>()[i] = static_cast<T>(p - a.lr * (step + a.weight_decay * p));
        if (weight) weight[i] = a.master.as<T>()[i];
    }
}

}  // namespace

void reference::adamw(device::Context& context, const AdamW& a) {
    (void)context;
    if (a.weight && a.weight.dtype != a.master.dtype) no_such_type(a.weight.dtype);
    with_type(a.master.dtype, [&]<typename T>(T) { update<T>(a); });
}

void fast::adamw(device::Context& context, const AdamW& a) {
    if (a.master.dtype != DType::fp32) no_such_type(a.master.dtype);
    if (a.weight && !is_fast_type(a.weight.dtype)) no_such_type(a.weight.dtype);
    const auto t = static_cast<double>(a.step);
    const AdamWStep step{
        .grad_scale = static_cast<float>(a.grad_scale),
        .beta1 = static_cast<float>(a.beta1),
        .one_minus_beta1 = static_cast<float>(1.0 - a.beta1),
        .beta2 = static_cast<float>(a.beta2),
        .one_minus_beta2 = static_cast<float>(1.0 - a.beta2),
        .correct1 = static_cast<float>(1.0 / (1.0 - std::pow(a.beta1, t))),
        .correct2 = static_cast<float>(1.0 / (1.0 - std::pow(a.beta2, t))),
        .eps = static_cast<float>(a.eps),
        .lr = static_cast<float>(a.lr),
        .weight_decay = static_cast<float>(a.weight_decay),
    };
    const Target weight(a.weight);
    constexpr i64 grain = i64{1} << 15;
    pool_of(context).run_ranges(a.master[0], grain, [&](i64 begin, i64 end, int) {
        float* const master = a.master.as<float>() + begin;
        float* const same = weight && !weight.half() ? weight.row(begin, nullptr) : nullptr;
        vector_kernels().adamw(step, master, same, a.grad.as<float>() + begin,
                               a.m.as<float>() + begin, a.v.as<float>() + begin, end - begin);
        weight.store(begin, master, end - begin);
    });
}

}  // namespace lm::cpu
