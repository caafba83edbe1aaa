// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov & Hutter, 2019) over the parts of a rank's parameters.
#include <cmath>

#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::AdamW;

template <typename T>
void update(const AdamW& a, const device::AdamWPart& part) {
    const double correct1 = 1.0 / (1.0 - std::pow(a.config.beta1, static_cast<double>(a.step)));
    const double correct2 = 1.0 / (1.0 - std::pow(a.config.beta2, static_cast<double>(a.step)));
    const double decay = part.decay ? a.config.weight_decay : 0.0;
    T* const weight = maybe<T>(a.weight);
    const i64 first = weight ? part.state_begin : part.param_begin;  // index in master
    for (i64 i = 0; i < part.size; ++i) {
        T& first_moment = a.m.as<T>()[part.state_begin + i];
        T& second_moment = a.v.as<T>()[part.state_begin + i];
        T& master = a.master.as<T>()[first + i];
        const double g = a.grad_scale * a.grad.as<T>()[part.param_begin + i];
        const double m = a.config.beta1 * first_moment + (1.0 - a.config.beta1) * g;
        const double v = a.config.beta2 * second_moment + (1.0 - a.config.beta2) * g * g;
        const double p = master;
        const double step = m * correct1 / (std::sqrt(v * correct2) + a.config.eps);
        first_moment = static_cast<T>(m);
        second_moment = static_cast<T>(v);
        master = static_cast<T>(p - a.lr * (step + decay * p));
        if (weight) weight[part.param_begin + i] = master;
    }
}

}  // namespace

void reference::adamw(device::Context&, const AdamW& a) {
    if (a.weight && a.weight.dtype != a.master.dtype) no_such_type(a.weight.dtype);
    with_type(a.master.dtype, [&]<typename T>(T) {
        for (const device::AdamWPart& part : a.parts) update<T>(a, part);
    });
}

void fast::adamw(device::Context& context, const AdamW& a) {
    if (a.master.dtype != DType::fp32) no_such_type(a.master.dtype);
    if (a.weight && !is_fast_type(a.weight.dtype)) no_such_type(a.weight.dtype);
    const Target weight(a.weight);
    constexpr i64 grain = i64{1} << 15;
    for (const device::AdamWPart& part : a.parts) {
        AdamWStep step = adamw_step(a);
        if (!part.decay) step.weight_decay = 0.0F;
        const i64 first = weight ? part.state_begin : part.param_begin;  // index in master
        pool_of(context).run_ranges(part.size, grain, [&](i64 begin, i64 end, int) {
            const i64 param = part.param_begin + begin;
            const i64 state = part.state_begin + begin;
            float* const master = a.master.as<float>() + first + begin;
            float* const same = weight && !weight.half() ? weight.row(param, nullptr) : nullptr;
            vector_kernels().adamw(step, master, same, a.grad.as<float>() + param,
                                   a.m.as<float>() + state, a.v.as<float>() + state, end - begin);
            weight.store(param, master, end - begin);
        });
    }
}

}  // namespace lm::cpu
