// SPDX-License-Identifier: Apache-2.0
// Gated activations. A row of x has the columns of the gate, then the columns of the up projection.
#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::Activation;
using device::GatedBackward;
using device::GatedForward;

template <typename T>
void forward_row(Activation gate, const T* x, const T* up, T* y, i64 n) {
    for (i64 i = 0; i < n; ++i) y[i] = static_cast<T>(activation_value(gate, x[i]) * up[i]);
}

template <typename T>
void backward_row(Activation gate, const T* x, const T* up, const T* dy, T* dx, T* dup, i64 n) {
    for (i64 i = 0; i < n; ++i) {
        const double gated = activation_value(gate, x[i]) * dy[i];
        dx[i] = static_cast<T>(activation_slope(gate, x[i]) * up[i] * dy[i]);
        dup[i] = static_cast<T>(gated);
    }
}

}  // namespace

namespace reference {

void gated_forward(device::Context&, const GatedForward& a) {
    const i64 width = a.y[1];
    with_type(a.y.dtype, [&]<typename T>(T) {
        for (i64 n = 0; n < a.y[0]; ++n) {
            const T* const x = a.x.as<T>() + n * 2 * width;
            forward_row(a.gate, x, x + width, a.y.as<T>() + n * width, width);
        }
    });
}

void gated_backward(device::Context&, const GatedBackward& a) {
    const i64 width = a.dy[1];
    with_type(a.dy.dtype, [&]<typename T>(T) {
        for (i64 n = 0; n < a.dy[0]; ++n) {
            const T* const x = a.x.as<T>() + n * 2 * width;
            T* const dx = a.dx.as<T>() + n * 2 * width;
            backward_row(a.gate, x, x + width, a.dy.as<T>() + n * width, dx, dx + width, width);
        }
    });
}

}  // namespace reference

namespace fast {
namespace {

constexpr i64 grain = 16;  // rows of a task

}  // namespace

void gated_forward(device::Context& context, const GatedForward& a) {
    if (!is_fast_type(a.y.dtype)) no_such_type(a.y.dtype);
    const i64 width = a.y[1];
    const Source x(a.x);
    const Target y(a.y);
    const GateLoops loops = vector_kernels().gate(a.gate);
    pool_of(context).run_ranges(a.y[0], grain, [&](i64 begin, i64 end, int) {
        float scratch[3][row_piece];
        for (i64 row = begin; row < end; ++row) {
            for_pieces(width, [&](i64 column, i64 n) {
                const i64 at = row * 2 * width + column;
                const float* const gate = x.row(at, n, scratch[0]);
                const float* const up = x.row(at + width, n, scratch[1]);
                float* const out = y.row(row * width + column, scratch[2]);
                loops.forward(gate, up, out, n);
                y.store(row * width + column, out, n);
            });
        }
    });
}

void gated_backward(device::Context& context, const GatedBackward& a) {
    if (!is_fast_type(a.dy.dtype)) no_such_type(a.dy.dtype);
    const i64 width = a.dy[1];
    const Source x(a.x);
    const Source dy(a.dy);
    const Target dx(a.dx);
    const GateLoops loops = vector_kernels().gate(a.gate);
    pool_of(context).run_ranges(a.dy[0], grain, [&](i64 begin, i64 end, int) {
        float scratch[5][row_piece];
        for (i64 row = begin; row < end; ++row) {
            for_pieces(width, [&](i64 column, i64 n) {
                const i64 at = row * 2 * width + column;
                const float* const gate = x.row(at, n, scratch[0]);
                const float* const up = x.row(at + width, n, scratch[1]);
                const float* const d = dy.row(row * width + column, n, scratch[2]);
                float* const dgate = dx.row(at, scratch[3]);
                float* const dup = dx.row(at + width, scratch[4]);
                loops.backward(gate, up, d, dgate, dup, n);
                dx.store(at, dgate, n);
                dx.store(at + width, dup, n);
            });
        }
    });
}

}  // namespace fast
}  // namespace lm::cpu
