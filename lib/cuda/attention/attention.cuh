// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention share, whatever they compute with: which keys a query sees, what
// is added to its scores, which probabilities dropout keeps. A kernel's block works on one tile of
// queries or keys of one (sample, head); the tiles depend on the shape alone, and no two blocks add
// to the same number, so that results are the same bits in every run.
//
// Scores stay in units of q k: with s = q k + (slope / scale) (key - query), the softmax of
// scale * s is that of 2^(scale_2 * s), scale_2 = scale * log2(e).
#pragma once

#include "cuda/kernels/dropout.cuh"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/mma.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/shared.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {

struct AttentionInput {
    const void* qkv = nullptr;
    const i32* doc_start = nullptr;  // or none
    const float* slopes = nullptr;   // or none
    const i64* sample_ids = nullptr;
    i64 first_head = 0;  // for dropout
    DropoutNumbers dropout;
    int length = 0;  // T
    int n_heads = 0;
    int n_groups = 0;
    int width = 0;  // D
    float scale = 0;
    bool vectors = false;  // rows can be read and written 16 bytes at a time

    // Elements from one token's row to the next.
    __device__ int qkv_stride() const { return (n_heads + 2 * n_groups) * width; }
    __device__ int out_stride() const { return n_heads * width; }
};

constexpr float log2_e = 1.44269504088896340736F;
constexpr float ln_2 = 0.69314718055994530942F;

// One (sample, head): where its rows begin, and what belongs to it alone.
template <typename T>
struct AttentionHead {
    __device__ AttentionHead(const AttentionInput& input, int sample_index, int head_index)
        : sample(sample_index), head(head_index), group(head / (input.n_heads / input.n_groups)) {
        const T* const first =
            static_cast<const T*>(input.qkv) + sample * input.length * input.qkv_stride();
        q = first + head * i64{input.width};
        k = first + (input.n_heads + group) * i64{input.width};
        v = k + input.n_groups * i64{input.width};
        scale_2 = input.scale * log2_e;
        if (input.slopes) slope = input.slopes[head] / input.scale;
        if (input.doc_start) starts = input.doc_start + sample * i64{input.length};
        if (input.dropout.threshold != 0) sample_id = static_cast<u64>(input.sample_ids[sample]);
        first_element = static_cast<u64>(input.first_head + head) * static_cast<u64>(input.length);
    }
    // Of dropout's numbering.
    __device__ u64 element(const AttentionInput& input, int query, int key) const {
        return (first_element + static_cast<u64>(query)) * static_cast<u64>(input.length) +
               static_cast<u64>(key);
    }
    // In out and dout, of token 0.
    __device__ i64 out_offset(const AttentionInput& input) const {
        return sample * input.length * input.out_stride() + head * i64{input.width};
    }
    // In lse and delta, of token 0.
    __device__ i64 row_offset(const AttentionInput& input) const {
        return (sample * i64{input.n_heads} + head) * input.length;
    }

    i64 sample;
    int head;
    int group;
    const T *q, *k, *v;
    float scale_2 = 0;
    float slope = 0;              // in units of q k
    const i32* starts = nullptr;  // of this sample
    u64 sample_id = 0;
    u64 first_element = 0;
};

struct Min {
    __device__ int operator()(int a, int b) const { return min(a, b); }
};

// Bit i: does dropout keep element first + i, i < 8?
__device__ inline u32 kept_of_eight(const DropoutNumbers& dropout, u64 sample, u64 first) {
    const int offset = static_cast<int>(first % 8);
    const auto kept_of_block = [&](u64 number) {
        const DropoutBlock block = dropout_block(dropout.key, sample, number);
        u32 bits = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            bits |= (block.number(i) >= dropout.threshold ? 1U : 0U) << i;
        }
        return bits;
    };
    u32 bits = kept_of_block(first / 8);
    if (offset != 0) bits = (bits | kept_of_block(first / 8 + 1) << 8) >> offset & 0xffU;
    return bits;
}

// The first key that queries from `query` on see: documents begin later for later queries.
__device__ inline int first_key_of(const i32* starts, int query) {
    return starts ? starts[query] : 0;
}

// Of steps of n queries from `query` on, where the first begins that sees no key before `end`, as
// none after it does. The whole block of `threads` calls it.
template <int threads>
__device__ int last_query_of(const i32* starts, int query, int n, int length, int end) {
    if (!starts) return length;
    int last = length;
    for (int i = query + n * static_cast<int>(threadIdx.x); i < length; i += n * threads) {
        if (starts[i] >= end) last = min(last, i);
    }
    return block_reduce<threads, Min>(last);
}

}  // namespace lm::cuda
