// SPDX-License-Identifier: Apache-2.0
// Declarations that both implementations of attention share: attention.cpp computes in fp32,
// attention_bf16.cpp with products of bf16 pairs.
#pragma once

#include <algorithm>

#include "base/error.hpp"
#include "cost/cpu_scratch.hpp"
#include "cpu/dropout.hpp"
#include "cpu/storage.hpp"
#include "device/ops.hpp"

namespace lm::cpu {

// Divides a worker's scratch memory into named arrays. cost/cpu_scratch.hpp has their total size.
class ScratchPieces {
  public:
    ScratchPieces(float* base, i64 floats) : base_(base), next_(base), end_(base + floats) {}
    float* reserve(i64 floats) {
        float* const piece = next_;
        next_ += floats;
        LM_CHECK(next_ <= end_, "attention scratch: expected at most {} floats, got {}",
                 end_ - base_, next_ - base_);
        return piece;
    }

  private:
    float* base_;
    float* next_;
    float* end_;
};

// One (sample, head): the offsets of its rows, and the keys visible to a query.
template <typename Args>
struct HeadRows {
    HeadRows(const Args& args, i64 sample_index, i64 head_index)
        : a(args),
          sample(sample_index),
          head(head_index),
          length(a.qkv[1]),
          width(a.head_dim),
          stride((a.n_heads + 2 * a.n_groups) * width),
          group(head / (a.n_heads / a.n_groups)),
          q_offset(sample * length * stride + head * width),
          k_offset(sample * length * stride + (a.n_heads + group) * width),
          v_offset(k_offset + a.n_groups * width),
          slope(a.alibi_slopes ? a.alibi_slopes.template as<float>()[head] : 0.0F),
          mask(a.dropout.p, a.dropout.seed, a.dropout.layer, a.dropout.site) {
        if (a.doc_start) starts = a.doc_start.template as<i32>() + sample * length;
        if (a.dropout.on()) {
            sample_id = static_cast<u64>(a.dropout.sample_ids.template as<i64>()[sample]);
        }
    }
    i64 out_offset(i64 t) const { return ((sample * length + t) * a.n_heads + head) * width; }
    i64 lse_offset(i64 t) const { return (sample * a.n_heads + head) * length + t; }
    i64 first_key(i64 query) const { return starts ? starts[query] : 0; }
    // Returns the first key that any query in [begin, end) sees.
    i64 first_key(i64 begin, i64 end) const {
        return starts ? *std::min_element(starts + begin, starts + end) : 0;
    }
    void dropout_factors(i64 query, i64 first, i64 n, float* factors) const {
        const i64 element = ((a.dropout.first_head + head) * length + query) * length + first;
        vector_kernels().dropout_factors(mask.key(), sample_id, static_cast<u64>(element),
                                         mask.threshold(), static_cast<float>(mask.scale()),
                                         factors, n);
    }

    const Args& a;
    i64 sample, head, length, width, stride, group;
    i64 q_offset, k_offset, v_offset;  // offsets of token 0 in qkv
    float slope;
    DropoutMask mask;
    const i32* starts = nullptr;
    u64 sample_id = 0;
};

// The keys of the block at `first` that are visible to `query`, as a range within the block.
struct SeenKeys {
    template <typename Args>
    SeenKeys(const HeadRows<Args>& head, i64 query, i64 first, i64 n)
        : begin(std::clamp<i64>(head.first_key(query) - first, 0, n)),
          end(std::clamp<i64>(query + 1 - first, 0, n)) {}
    i64 begin, end;
};

}  // namespace lm::cpu
