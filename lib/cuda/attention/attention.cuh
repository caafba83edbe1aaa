// SPDX-License-Identifier: Apache-2.0
// Device code that all attention kernels share, for tensor cores and for fp32: the keys visible to
// a query, the bias of its scores, the dropout of its probabilities. A block works on one tile of
// queries or keys of one (sample, head). The tiles depend on the shape only, and no two blocks
// write the same element, so that results have the same bits in every run.
//
// Scores are not scaled: s = q k + (slope / scale) (key - query). The softmax of scale * s is
// computed with powers 2^(scale_2 * s), where scale_2 = scale * log2(e).
#pragma once

#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/dropout.cuh"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/mma.cuh"
#include "cuda/kernels/shared.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {

struct AttentionInput {
    const void* qkv = nullptr;        // [B, T, (H+2G)*D] of the compute type
    const i32* doc_start = nullptr;   // [B, T] or nullptr
    const float* slopes = nullptr;    // [H] or nullptr
    const i64* sample_ids = nullptr;  // [B]; nullptr without dropout
    i64 first_head = 0;               // global number of local head 0, for dropout
    DropoutNumbers dropout;
    int length = 0;    // T
    int n_heads = 0;   // H
    int n_groups = 0;  // G
    int width = 0;     // D
    float scale = 0;
    bool vectors = false;  // all rows are aligned for 16-byte accesses

    // Numbers of elements from the row of one token to the row of the next token.
    __device__ int qkv_stride() const { return (n_heads + 2 * n_groups) * width; }
    __device__ int out_stride() const { return n_heads * width; }
};

constexpr float log2_e = 1.44269504088896340736F;
constexpr float ln_2 = 0.69314718055994530942F;

// One head of one sample: pointers to its q, k and v of token 0, and its constants.
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
    // Returns the element number of the dropout mask (device::Dropout).
    __device__ u64 element(const AttentionInput& input, int query, int key) const {
        return (first_element + static_cast<u64>(query)) * static_cast<u64>(input.length) +
               static_cast<u64>(key);
    }
    // Returns the offset of token 0 in out and dout.
    __device__ i64 out_offset(const AttentionInput& input) const {
        return sample * input.length * input.out_stride() + head * i64{input.width};
    }
    // Returns the offset of token 0 in lse and delta, [B, H, T].
    __device__ i64 row_offset(const AttentionInput& input) const {
        return (sample * i64{input.n_heads} + head) * input.length;
    }

    i64 sample;
    int head;
    int group;
    const T *q, *k, *v;
    float scale_2 = 0;
    float slope = 0;              // ALiBi slope / scale
    const i32* starts = nullptr;  // [T]: doc_start of this sample, or nullptr
    u64 sample_id = 0;
    u64 first_element = 0;
};

struct Min {
    __device__ int operator()(int a, int b) const { return min(a, b); }
};

// Returns a mask of 8 bits: bit i is set when dropout keeps element first + i. Computes a second
// Philox block when `first` is not a multiple of 8.
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

// Returns the first key that `query` or any later query can see. doc_start never decreases.
__device__ inline int first_key_of(const i32* starts, int query) {
    return starts ? starts[query] : 0;
}

// Returns the end of the queries that can see a key before `end`, in steps of n queries: the
// smallest query + i * n whose doc_start is at or after `end`, or `length` if there is none. The
// returned query and all later queries see no key before `end`, because doc_start never decreases.
// All `threads` threads of the block must call this function.
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
