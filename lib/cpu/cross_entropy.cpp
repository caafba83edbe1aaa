// SPDX-License-Identifier: Apache-2.0
// Cross-entropy over one rank's columns of the logits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::CrossEntropy;
using device::CrossEntropyBackward;
using device::CrossEntropyLoss;
using device::CrossEntropyRescale;
using device::CrossEntropyStats;

template <typename T>
void stats_rows(const CrossEntropyStats& a, i64 begin, i64 end) {
    for (i64 n = begin; n < end; ++n) {
        const T* const logits = a.logits.as<T>() + n * a.logits[1];
        T most = -std::numeric_limits<T>::infinity();
        for (i64 v = 0; v < a.n_valid; ++v) most = std::max(most, logits[v]);
        double sum = 0;
        for (i64 v = 0; v < a.n_valid; ++v) sum += std::exp(static_cast<double>(logits[v]) - most);
        const i64 target = a.targets.as<i32>()[n] - a.vocab_start;
        a.row_max.as<T>()[n] = most;
        a.row_sum.as<T>()[n] = static_cast<T>(sum);
        a.target_logit.as<T>()[n] = target >= 0 && target < a.n_valid ? logits[target] : 0;
    }
}

template <typename T>
void backward_rows(const CrossEntropyBackward& a, i64 begin, i64 end) {
    for (i64 n = begin; n < end; ++n) {
        T* const logits = a.logits.as<T>() + n * a.logits[1];
        const double most = a.row_max.as<T>()[n];
        const double factor = a.grad_scale * a.weight.as<T>()[n];
        const double share = factor / a.row_sum.as<T>()[n];
        for (i64 v = 0; v < a.n_valid; ++v) {
            logits[v] = static_cast<T>(share * std::exp(logits[v] - most));
        }
        std::fill(logits + a.n_valid, logits + a.logits[1], T{0});
        const i64 target = a.targets.as<i32>()[n] - a.vocab_start;
        if (target >= 0 && target < a.n_valid) logits[target] -= static_cast<T>(factor);
    }
}

template <typename T>
void rescale(const CrossEntropyRescale& a) {
    for (i64 n = 0; n < a.row_sum[0]; ++n) {
        const double rise =
            static_cast<double>(a.local_max.as<T>()[n]) - static_cast<double>(a.row_max.as<T>()[n]);
        T& sum = a.row_sum.as<T>()[n];
        sum = static_cast<T>(sum * std::exp(rise));
    }
}

template <typename T>
void loss(const CrossEntropyLoss& a) {
    for (i64 n = 0; n < a.losses[0]; ++n) {
        const double log_sum = std::log(static_cast<double>(a.row_sum.as<T>()[n]));
        const double shifted =
            static_cast<double>(a.row_max.as<T>()[n]) - a.target_logit.as<T>()[n];
        a.losses.as<T>()[n] = static_cast<T>(log_sum + shifted);
    }
}

}  // namespace

namespace reference {

void cross_entropy_stats(device::Context&, const CrossEntropyStats& a) {
    with_type(a.logits.dtype, [&]<typename T>(T) { stats_rows<T>(a, 0, a.logits[0]); });
}

void cross_entropy_rescale(device::Context&, const CrossEntropyRescale& a) {
    with_type(a.row_sum.dtype, [&]<typename T>(T) { rescale<T>(a); });
}

void cross_entropy_loss(device::Context&, const CrossEntropyLoss& a) {
    with_type(a.losses.dtype, [&]<typename T>(T) { loss<T>(a); });
}

void cross_entropy_backward(device::Context&, const CrossEntropyBackward& a) {
    with_type(a.logits.dtype, [&]<typename T>(T) { backward_rows<T>(a, 0, a.logits[0]); });
}

void cross_entropy(device::Context& context, const CrossEntropy& a) {
    reference::cross_entropy_stats(context, stats_of(a));
    reference::cross_entropy_loss(context, loss_of(a));
    reference::cross_entropy_backward(context, backward_of(a));
}

}  // namespace reference

namespace fast {
namespace {

// Returns the number of rows of a task: about 16384 logits, at least one row.
i64 row_grain(i64 width) {
    return std::max<i64>(1, 16384 / std::max<i64>(width, 1));
}

}  // namespace

void cross_entropy_stats(device::Context& context, const CrossEntropyStats& a) {
    if (!is_fast_type(a.logits.dtype)) no_such_type(a.logits.dtype);
    const i64 width = a.logits[1];
    const Source logits(a.logits);
    pool_of(context).run_ranges(a.logits[0], row_grain(width), [&](i64 begin, i64 end, int) {
        float scratch[row_piece];
        for (i64 n = begin; n < end; ++n) {
            float most = -std::numeric_limits<float>::infinity();
            double sum = 0;
            for_pieces(a.n_valid, [&](i64 column, i64 count) {
                const float* const piece = logits.row(n * width + column, count, scratch);
                vector_kernels().online_sum(piece, count, &most, &sum);
            });
            const i64 target = a.targets.as<i32>()[n] - a.vocab_start;
            const bool held = target >= 0 && target < a.n_valid;
            a.row_max.as<float>()[n] = most;
            a.row_sum.as<float>()[n] = static_cast<float>(sum);
            a.target_logit.as<float>()[n] =
                held ? *logits.row(n * width + target, 1, scratch) : 0.0F;
        }
    });
}

void cross_entropy_rescale(device::Context& context, const CrossEntropyRescale& a) {
    reference::cross_entropy_rescale(context, a);
}

void cross_entropy_loss(device::Context& context, const CrossEntropyLoss& a) {
    reference::cross_entropy_loss(context, a);
}

void cross_entropy_backward(device::Context& context, const CrossEntropyBackward& a) {
    if (!is_fast_type(a.logits.dtype)) no_such_type(a.logits.dtype);
    const i64 width = a.logits[1];
    const Source logits(a.logits);
    const Target gradient(a.logits);
    pool_of(context).run_ranges(a.logits[0], row_grain(width), [&](i64 begin, i64 end, int) {
        float scratch[row_piece];
        for (i64 n = begin; n < end; ++n) {
            const double factor = a.grad_scale * a.weight.as<float>()[n];
            const double share = factor / a.row_sum.as<float>()[n];
            const i64 target = a.targets.as<i32>()[n] - a.vocab_start;
            for_pieces(width, [&](i64 column, i64 count) {
                const i64 valid = std::clamp<i64>(a.n_valid - column, 0, count);
                float* const row = gradient.row(n * width + column, scratch);
                logits.row(n * width + column, valid, row);
                vector_kernels().softmax_gradient(row, valid, a.row_max.as<float>()[n],
                                                  static_cast<float>(share));
                std::fill(row + valid, row + count, 0.0F);
                const i64 here = target - column;
                if (here >= 0 && here < valid) row[here] -= static_cast<float>(factor);
                gradient.store(n * width + column, row, count);
            });
        }
    });
}

void cross_entropy(device::Context& context, const CrossEntropy& a) {
    fast::cross_entropy_stats(context, stats_of(a));
    fast::cross_entropy_loss(context, loss_of(a));
    fast::cross_entropy_backward(context, backward_of(a));
}

}  // namespace fast
}  // namespace lm::cpu
