// SPDX-License-Identifier: Apache-2.0
// Linear layers: plain loops.
#include "cpu/activation.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"

namespace lm::cpu {
namespace {

using device::LinearBackwardInput;
using device::LinearBackwardWeight;
using device::LinearForward;

template <typename T>
void forward(const LinearForward& a) {
    const i64 width = a.x[1];
    const i64 m_end = a.w[0];
    const T* const bias = maybe<T>(a.bias);
    const bool active = a.activation != device::Activation::none;
    T* const pre = active ? a.pre_activation.as<T>() : nullptr;
    for (i64 n = 0; n < a.x[0]; ++n) {
        for (i64 m = 0; m < m_end; ++m) {
            const T* const x = a.x.as<T>() + n * width;
            const T* const w = a.w.as<T>() + m * width;
            double sum = bias ? bias[m] : 0.0;
            for (i64 k = 0; k < width; ++k) sum += static_cast<double>(x[k]) * w[k];
            if (active) pre[n * m_end + m] = static_cast<T>(sum);
            a.y.as<T>()[n * m_end + m] = static_cast<T>(activation_value(a.activation, sum));
        }
    }
}

template <typename T>
void backward_input(const LinearBackwardInput& a) {
    const i64 m_end = a.w[0];
    const i64 width = a.w[1];
    const T* const pre =
        a.activation == device::Activation::none ? nullptr : a.pre_activation.as<T>();
    for (i64 n = 0; n < a.dy[0]; ++n) {
        for (i64 k = 0; k < width; ++k) {
            double sum = 0;
            for (i64 m = 0; m < m_end; ++m) {
                sum +=
                    static_cast<double>(a.dy.as<T>()[n * m_end + m]) * a.w.as<T>()[m * width + k];
            }
            if (pre) sum *= activation_slope(a.activation, pre[n * width + k]);
            a.dx.as<T>()[n * width + k] = static_cast<T>(sum);
        }
    }
}

template <typename T>
void backward_weight(const LinearBackwardWeight& a) {
    const i64 n_end = a.dy[0];
    const i64 m_end = a.dy[1];
    const i64 width = a.x[1];
    const T* const dy = a.dy.as<T>();
    for (i64 m = 0; m < m_end; ++m) {
        for (i64 k = 0; k < width; ++k) {
            T& dw = a.dw.as<T>()[m * width + k];
            double sum = a.accumulate ? dw : 0.0;
            for (i64 n = 0; n < n_end; ++n) {
                sum += static_cast<double>(dy[n * m_end + m]) * a.x.as<T>()[n * width + k];
            }
            dw = static_cast<T>(sum);
        }
        if (!a.dbias) continue;
        T& dbias = a.dbias.as<T>()[m];
        double sum = a.accumulate ? dbias : 0.0;
        for (i64 n = 0; n < n_end; ++n) sum += dy[n * m_end + m];
        dbias = static_cast<T>(sum);
    }
}

}  // namespace

namespace reference {

void linear_forward(device::Context& context, const LinearForward& a) {
    (void)context;
    with_type(a.x.dtype, [&]<typename T>(T) { forward<T>(a); });
}

void linear_backward_input(device::Context& context, const LinearBackwardInput& a) {
    (void)context;
    with_type(a.dy.dtype, [&]<typename T>(T) { backward_input<T>(a); });
}

void linear_backward_weight(device::Context& context, const LinearBackwardWeight& a) {
    (void)context;
    with_type(a.dy.dtype, [&]<typename T>(T) { backward_weight<T>(a); });
}

}  // namespace reference

namespace fast {

void linear_forward(device::Context& context, const LinearForward& a) {
    reference::linear_forward(context, a);
}
void linear_backward_input(device::Context& context, const LinearBackwardInput& a) {
    reference::linear_backward_input(context, a);
}
void linear_backward_weight(device::Context& context, const LinearBackwardWeight& a) {
    reference::linear_backward_weight(context, a);
}

}  // namespace fast
}  // namespace lm::cpu
