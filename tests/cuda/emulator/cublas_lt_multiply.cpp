// SPDX-License-Identifier: Apache-2.0
// The emulated products: plain loops with fp32 sums.
#include "cublas_lt.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.hpp"

namespace emulator::cublas_lt {
namespace {

float read(const void* data, cudaDataType type, int64_t i) {
    if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
    const uint16_t bits = static_cast<const uint16_t*>(data)[i];
    return type == CUDA_R_16BF ? lm::fp32_from_bf16(bits) : lm::fp32_from_fp16(bits);
}

void write(void* data, cudaDataType type, int64_t i, float x) {
    if (type == CUDA_R_32F) {
        static_cast<float*>(data)[i] = x;
    } else {
        static_cast<uint16_t*>(data)[i] =
            type == CUDA_R_16BF ? lm::bf16_from_fp32(x) : lm::fp16_from_fp32(x);
    }
}

// Rounds to TF32: ten bits of mantissa, to nearest.
float tf32(float x) {
    uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0xfffU + ((bits >> 13) & 1U)) & ~0x1fffU;
    std::memcpy(&x, &bits, sizeof bits);
    return x;
}

// Returns values[j * rows + i] = op(x)(i, j), transposed with `turn`.
std::vector<float> gathered(const void* data, const Layout& x, bool turn, bool rounds) {
    const int64_t rows = turn ? x.cols : x.rows;
    const int64_t cols = turn ? x.rows : x.cols;
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (int64_t j = 0; j < cols; ++j) {
        for (int64_t i = 0; i < rows; ++i) {
            const float v = read(data, x.type, turn ? j + i * x.ld : i + j * x.ld);
            values[static_cast<size_t>(j * rows + i)] = rounds ? tf32(v) : v;
        }
    }
    return values;
}

// GELU by tanh, and its derivative.
float gelu(float x) {
    const float root = std::sqrt(2.0F / 3.14159265358979F);
    return 0.5F * x * (1 + std::tanh(root * (x + 0.044715F * x * x * x)));
}

float gelu_slope(float x) {
    const float root = std::sqrt(2.0F / 3.14159265358979F);
    const float t = std::tanh(root * (x + 0.044715F * x * x * x));
    return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * root * (1 + 3 * 0.044715F * x * x);
}

// sums[i] += A(i, k) B(k, column) for k = first, first + step, ... below end
void add_terms(const Call& c, const std::vector<float>& a, const std::vector<float>& b,
               int64_t column, int64_t first, int64_t end, int64_t step, float* sums) {
    const int64_t m = c.p.m;
    for (int64_t k = first; k < end; k += step) {
        const float factor = b[static_cast<size_t>(column * c.p.k + k)];
        const float* const from = a.data() + k * m;
        for (int64_t i = 0; i < m; ++i) sums[i] += from[i] * factor;
    }
}

void finish_column(const Call& c, int64_t column, const std::vector<float>& sums) {
    const Problem& p = c.p;
    const Operation& o = p.operation;
    for (int64_t i = 0; i < p.m; ++i) {
        const int64_t at = i + column * p.d.ld;
        float x = c.alpha * sums[static_cast<size_t>(i)];
        if (c.beta != 0) x += c.beta * read(c.d, p.d.type, at);
        if (o.biased()) x += read(o.bias, p.d.type, i);
        if (o.keeps_sum()) {
            write(o.aux, p.d.type, i + column * o.aux_ld, x);
            x = gelu(x);
        }
        if (o.epilogue == CUBLASLT_EPILOGUE_DGELU) {
            x *= gelu_slope(read(o.aux, p.d.type, i + column * o.aux_ld));
        }
        write(c.d, p.d.type, at, x);
    }
}

}  // namespace

cudaError_t multiply(const Call& c) {
    const Problem& p = c.p;
    const bool rounds = p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    const auto a = gathered(c.a, p.a, p.operation.trans_a == CUBLAS_OP_T, rounds);
    const auto b = gathered(c.b, p.b, p.operation.trans_b == CUBLAS_OP_T, rounds);
    const int64_t parts = c.algorithm.order == straight ? 1 : 2;
    for (int64_t column = 0; column < p.n; ++column) {
        std::vector<float> sums(static_cast<size_t>(p.m), 0.0F);
        for (int64_t part = 0; part < parts; ++part) {
            std::vector<float> own(sums.size(), 0.0F);
            float* const to =
                c.algorithm.order == split ? c.workspace + (part * p.n + column) * p.m : own.data();
            std::fill_n(to, p.m, 0.0F);
            if (c.algorithm.order == even_odd) {
                add_terms(c, a, b, column, part, p.k, 2, to);
            } else {
                add_terms(c, a, b, column, part * p.k / parts, (part + 1) * p.k / parts, 1, to);
            }
            for (size_t i = 0; i < sums.size(); ++i) sums[i] += to[i];
        }
        finish_column(c, column, sums);
    }
    if (p.operation.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
        for (int64_t column = 0; column < p.n; ++column) {
            float sum = 0;
            for (int64_t k = 0; k < p.k; ++k) sum += b[static_cast<size_t>(column * p.k + k)];
            write(p.operation.bias, p.d.type, column, sum);
        }
    }
    return cudaSuccess;
}

}  // namespace emulator::cublas_lt
