// SPDX-License-Identifier: Apache-2.0
// Vectorized inner loops, compiled once for each instruction set and selected when the program
// starts. The code is in all_loops.hpp. The functions are single-threaded and work on plain arrays;
// on one instruction set their results depend on their arguments only.
#pragma once

#include <span>

#include "base/dtype.hpp"
#include "device/adamw_step.hpp"

namespace lm::cpu {

using device::AdamWStep;

// One row of residual + norm. Arrays are [width] fp32; absent optional arrays are nullptr.
struct NormRow {
    const float* branch;    // optional
    const float* factors;   // dropout factors of branch; optional
    const float* residual;  // optional
    float* sum;
    const float* weight;
    const float* bias;  // optional
    float* y;           // optional: without it only sum is computed
    float* mean;        // [1]; nullptr: RMSNorm
    float* rstd;        // [1]
    float eps;
};

// One row of the backward of residual + norm. Arrays are [width] fp32.
struct NormBackwardRow {
    const float* dy;
    const float* sum;
    const float* weight;
    float mean;
    float rstd;
    bool centred;          // true: LayerNorm; false: RMSNorm
    const float* dsum_in;  // optional
    float* dsum;
    const float* factors;  // dropout factors of branch; optional
    float* dbranch;        // optional
    float* dweight;        // partial sums of a block of rows, accumulated
    float* dbias;          // partial sums of a block of rows, accumulated; optional
};

// A block of an operand of a matrix product: n rows of a, or n columns of b, and `depth` elements
// of each along k. Element (k, i) is x[k * k_step + i * i_step]; one of the steps is 1.
struct Unpacked {
    const void* x;
    i64 k_step, i_step;
    i64 n, depth;
    DType type;  // fp32, bf16 or fp16
};

// c [m, n] = (accumulate ? c : 0) + a b for one block of k: packed a, of m rows, and packed b, of n
// columns, with `words` words for each. Sums are fp32.
struct PackedProduct {
    i64 m, n, words;
    const float* a;
    const float* b;
    float* c;
    i64 ldc;
    bool accumulate;
    DType type;  // the type before packing
};

// The kernels of large products: the packing of a block of a or of b, and the product of two packed
// blocks. A packed block is a sequence of strips of `rows` rows of a or `cols` columns of b, in
// words of 32 bits: an fp32 element, or a pair of bf16 elements that follow each other along k.
// Zeros fill the rest of the last strip, and the words along k up to a multiple of `granule`.
struct PackedKernels {
    int rows, cols;
    int granule;
    bool pairs_bf16;  // false: bf16 elements are widened
    void (*pack_a)(const Unpacked& a, float* packed);
    void (*pack_b)(const Unpacked& b, float* packed);
    void (*product)(const PackedProduct& product);

    bool pairs(DType type) const { return pairs_bf16 && type == DType::bf16; }
    // Returns the words along k of `depth` elements.
    i64 words(i64 depth, DType type) const {
        return round_up(pairs(type) ? ceil_div(depth, 2) : depth, granule);
    }
};

// y(i, j) = sum over k of x(i, k) * w(j, k), for a few rows of x: y[i * ldy + j], x [m, k] fp32, w
// [n, k] `type` (fp32, bf16 or fp16), whose elements are widened in registers. Sums are fp32.
struct RowProducts {
    i64 m, n, k;
    const float* x;
    const void* w;
    DType type;
    float* y;
    i64 ldy;
};

// The loops of an activation function that is not gated.
struct ActivationLoops {
    // pre += bias (optional), y = activation(pre).
    void (*forward)(float* pre, const float* bias, float* y, i64 n);
    void (*backward)(const float* pre, float* dx, i64 n);  // dx *= activation'(pre)
};
// The loops of a gated unit: y = f(gate) * up, and the gradients of gate and up.
struct GateLoops {
    void (*forward)(const float* gate, const float* up, float* y, i64 n);
    void (*backward)(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                     i64 n);
};

struct VectorKernels {
    const char* name;

    // c [m, n] = (accumulate ? c : 0) + a b, for small operands that are in the L1 or L2 cache.
    // a(i, k) is a[i * a_row + k * a_col]; b and c are row-major.
    void (*small_product)(i64 m, i64 n, i64 k, const float* a, i64 a_row, i64 a_col, const float* b,
                          i64 ldb, float* c, i64 ldc, bool accumulate);
    PackedKernels packed;
    // Computes the products of a few vectors with a matrix, and reads each element of the matrix
    // from memory once.
    void (*row_products)(const RowProducts& products);
    // y [cols, rows] = factor * x^T for x [rows, cols], whose rows start `ldx` elements apart.
    void (*transpose)(i64 rows, i64 cols, const float* x, i64 ldx, float factor, float* y, i64 ldy);
    // Processes one block of n scores of an online softmax. Replaces elements [begin, end) by
    // exp(score + slope * (first_index + i) - max') and all others by 0, where max' is the maximum
    // of *max and these scores. Updates *max, and *sum, the sum of the exponentials. Returns the
    // factor by which the caller must multiply its sums over earlier blocks.
    float (*online_softmax)(float* scores, i64 n, i64 begin, i64 end, float slope,
                            float first_index, float* max, float* sum);
    // Recomputes the probabilities of the forward pass from the scores p [n] and the log-sum-exp of
    // their row: p[i] = exp(p[i] + slope * (first_index + i) - lse) in [begin, end), zero
    // elsewhere.
    void (*recompute_softmax)(float* p, i64 n, i64 begin, i64 end, float slope, float first_index,
                              float lse);
    // dp = p * (dp * factors - delta); p *= factors. `factors` may be nullptr: all are 1.
    void (*softmax_backward)(float* p, float* dp, const float* factors, float delta, i64 n);

    void (*scale)(float* x, float factor, i64 n);                        // x *= factor
    void (*multiply)(float* x, const float* factors, i64 n);             // x *= factors
    void (*add)(float* x, const float* y, i64 n);                        // x += y
    void (*scaled_copy)(float* y, const float* x, float factor, i64 n);  // y = factor * x
    double (*dot)(const float* x, const float* y, i64 n);                // summed in fp64

    // Return the loops of an activation; nullptr for none, and for an activation of the other sort.
    ActivationLoops (*activation)(device::Activation activation);
    GateLoops (*gate)(device::Activation activation);
    // (a, b) = (a cos - b sin, b cos + a sin), with sin times `sign`.
    void (*rotate)(float* a, float* b, const float* cosines, const float* sines, float sign, i64 n);

    // Conversions of 16-bit storage: widen is exact, narrow rounds to nearest even.
    void (*widen_bf16)(float* y, const Bf16* x, i64 n);
    void (*widen_fp16)(float* y, const Fp16* x, i64 n);
    void (*narrow_bf16)(Bf16* y, const float* x, i64 n);
    void (*narrow_fp16)(Fp16* y, const float* x, i64 n);

    void (*norm_row)(const NormRow& row, i64 width);
    void (*norm_backward_row)(const NormBackwardRow& row, i64 width);

    // Updates *max, the maximum of a row, and *sum, the sum of exp(element - *max), by n more
    // elements of the row. Before the first call, *max must be -infinity and *sum 0.
    void (*online_sum)(const float* x, i64 n, float* max, double* sum);
    void (*softmax_gradient)(float* x, i64 n, float max, float share);  // x = share * exp(x - max)

    // `weight` may be nullptr.
    void (*adamw)(const AdamWStep& step, float* master, float* weight, const float* grad, float* m,
                  float* v, i64 n);

    // factors[i] = 0 or scale for elements first + i of `sample`, as device/dropout.hpp defines.
    void (*dropout_factors)(u64 key, u64 sample, u64 first, u32 threshold, float scale,
                            float* factors, i64 n);
};

// Returns the best set of kernels that this processor can run.
const VectorKernels& vector_kernels();
// Returns all sets of kernels that this processor can run, best first. For tests.
std::span<const VectorKernels* const> all_vector_kernels();

// Returns the kernels of large bf16 products in AMX tiles (vector/x86/amx.cpp), or nullptr when
// this processor or the system has no AMX or LM_PROCESSOR excludes it.
const PackedKernels* amx_packed_kernels();
// Returns the best kernels for large products of operands of `type`.
const PackedKernels& packed_kernels(DType type);

// The sets that this build has, one per instruction set; all_vector_kernels() lists the sets that
// this processor can run.
#if defined(__x86_64__)
extern const PackedKernels amx_kernels;
extern const VectorKernels avx512_bf16_kernels;
extern const VectorKernels avx512_kernels;
extern const VectorKernels avx2_kernels;
#endif
extern const VectorKernels portable_kernels;

}  // namespace lm::cpu
