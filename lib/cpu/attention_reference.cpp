// SPDX-License-Identifier: Apache-2.0
// Attention as plain loops over (query, key) pairs (Vaswani et al. 2017, "Attention is all you
// need", section 3.2.1). It defines the results of all other implementations. Scores are recomputed
// wherever they are needed, so that no scratch memory is necessary; all sums are fp64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/cpu_device.hpp"
#include "cpu/dropout.hpp"
#include "cpu/ops.hpp"

namespace lm::cpu {
namespace {

using device::AttentionBackward;
using device::AttentionForward;

// One (sample, head): the offsets of its rows, and its scores.
template <typename T, typename Args>
class Head {
  public:
    Head(const Args& a, i64 sample, i64 head)
        : a_(a),
          t_(a.qkv[1]),
          d_(a.head_dim),
          row_((a.n_heads + 2 * a.n_groups) * a.head_dim),
          group_(head / (a.n_heads / a.n_groups)),
          sample_(sample),
          head_(head),
          mask_(a.dropout.p, a.dropout.seed, a.dropout.layer, a.dropout.site) {}

    // The _at functions return the offset, in elements, of token t's row of this head: q, k and v
    // in qkv [B, T, (H+2G)*D], out in [B, T, H*D], lse in [B, H, T].
    i64 q_at(i64 t) const { return (sample_ * t_ + t) * row_ + head_ * d_; }
    i64 k_at(i64 t) const { return (sample_ * t_ + t) * row_ + (a_.n_heads + group_) * d_; }
    i64 v_at(i64 t) const { return k_at(t) + a_.n_groups * d_; }
    i64 out_at(i64 t) const { return ((sample_ * t_ + t) * a_.n_heads + head_) * d_; }
    i64 lse_at(i64 t) const { return (sample_ * a_.n_heads + head_) * t_ + t; }
    // Returns the first key that the query sees: the start of its document. The query sees the keys
    // [first, query].
    i64 first_key(i64 query) const {
        return a_.doc_start ? a_.doc_start.template as<i32>()[sample_ * t_ + query] : 0;
    }
    double dot(const T* x, const T* y) const {
        double sum = 0;
        for (i64 i = 0; i < d_; ++i) sum += static_cast<double>(x[i]) * y[i];
        return sum;
    }
    // Returns scale * q k + slope * (key - query); the second term is ALiBi's (Press et al. 2022).
    double score(i64 query, i64 key) const {
        const T* const qkv = a_.qkv.template as<T>();
        const T* const slopes = maybe<T>(a_.alibi_slopes);
        const i64 distance = key - query;
        const double bias =
            slopes ? static_cast<double>(slopes[head_]) * static_cast<double>(distance) : 0.0;
        return a_.scale * dot(qkv + q_at(query), qkv + k_at(key)) + bias;
    }
    // Returns the dropout factor of a probability: 0 or DropoutMask::scale().
    double kept(i64 query, i64 key) const {
        if (!a_.dropout.on()) return 1.0;
        const i64 element = ((a_.dropout.first_head + head_) * t_ + query) * t_ + key;
        return mask_.factor(a_.dropout.sample_ids.template as<i64>()[sample_], element);
    }

  private:
    const Args& a_;
    i64 t_, d_, row_, group_, sample_, head_;
    DropoutMask mask_;
};

template <typename T>
void forward_query(const AttentionForward& a, const Head<T, AttentionForward>& head, i64 query) {
    const T* const qkv = a.qkv.as<T>();
    // exp(score - most) cannot overflow, and the sum is at least 1, because a query sees itself.
    double most = -std::numeric_limits<double>::infinity();
    for (i64 key = head.first_key(query); key <= query; ++key) {
        most = std::max(most, head.score(query, key));
    }
    double sum = 0;
    for (i64 key = head.first_key(query); key <= query; ++key) {
        sum += std::exp(head.score(query, key) - most);
    }
    const double lse = most + std::log(sum);
    a.lse.as<T>()[head.lse_at(query)] = static_cast<T>(lse);
    // Dropout applies to the normalized probabilities, so `sum` contains no dropout factors.
    for (i64 i = 0; i < a.head_dim; ++i) {
        double out = 0;
        for (i64 key = head.first_key(query); key <= query; ++key) {
            const double p = std::exp(head.score(query, key) - lse) * head.kept(query, key);
            out += p * qkv[head.v_at(key) + i];
        }
        a.out.as<T>()[head.out_at(query) + i] = static_cast<T>(out);
    }
}

template <typename T>
void forward(const AttentionForward& a) {
    for (i64 sample = 0; sample < a.qkv[0]; ++sample) {
        for (i64 h = 0; h < a.n_heads; ++h) {
            const Head<T, AttentionForward> head(a, sample, h);
            for (i64 query = 0; query < a.qkv[1]; ++query) forward_query<T>(a, head, query);
        }
    }
}

// Adds the terms of one query to dqkv. With P the softmax, S the scores, M the dropout factors and
// delta = rowsum(dout * out):
// dV = (P M)^T dout; dS = P * (M * (dout V^T) - delta); dQ = scale dS K; dK = scale dS^T Q.
template <typename T>
void backward_query(const AttentionBackward& a, const Head<T, AttentionBackward>& head, i64 query) {
    const T* const qkv = a.qkv.as<T>();
    T* const dqkv = a.dqkv.as<T>();
    const T* const dout = a.dout.as<T>() + head.out_at(query);
    const double delta = head.dot(dout, a.out.as<T>() + head.out_at(query));
    const double lse = a.lse.as<T>()[head.lse_at(query)];
    for (i64 key = head.first_key(query); key <= query; ++key) {
        const double p = std::exp(head.score(query, key) - lse);
        const double kept = head.kept(query, key);
        const double dp = kept * head.dot(dout, qkv + head.v_at(key));
        const double ds = a.scale * p * (dp - delta);
        for (i64 i = 0; i < a.head_dim; ++i) {
            dqkv[head.v_at(key) + i] += static_cast<T>(p * kept * dout[i]);
            dqkv[head.q_at(query) + i] += static_cast<T>(ds * qkv[head.k_at(key) + i]);
            dqkv[head.k_at(key) + i] += static_cast<T>(ds * qkv[head.q_at(query) + i]);
        }
    }
}

template <typename T>
void backward(const AttentionBackward& a) {
    // dqkv is zeroed first, because backward_query() only adds. All queries that see a key add to
    // the key's dk and dv.
    std::ranges::fill(a.dqkv.span<T>(), T{0});
    for (i64 sample = 0; sample < a.qkv[0]; ++sample) {
        for (i64 h = 0; h < a.n_heads; ++h) {
            const Head<T, AttentionBackward> head(a, sample, h);
            for (i64 query = 0; query < a.qkv[1]; ++query) backward_query<T>(a, head, query);
        }
    }
}

}  // namespace

namespace reference {

void attention_forward(device::Context&, const AttentionForward& a) {
    with_type(a.qkv.dtype, [&]<typename T>(T) { forward<T>(a); });
}

void attention_backward(device::Context&, const AttentionBackward& a) {
    with_type(a.qkv.dtype, [&]<typename T>(T) { backward<T>(a); });
}

}  // namespace reference
}  // namespace lm::cpu
