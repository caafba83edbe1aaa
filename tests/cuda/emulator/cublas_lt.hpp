// SPDX-License-Identifier: Apache-2.0
// A product of the emulated cuBLASLt, and its computation.
#pragma once

#include "cublasLt.h"

namespace emulator::cublas_lt {

inline size_t size_of(cudaDataType type) {
    return type == CUDA_R_32F ? 4 : 2;
}

struct Layout {
    cudaDataType type;
    int64_t rows, cols, ld;
    int64_t elements() const { return cols == 0 ? 0 : (cols - 1) * ld + rows; }
    bool operator==(const Layout&) const = default;
};
struct Operation {
    cublasComputeType_t compute;
    int32_t trans_a = CUBLAS_OP_N;
    int32_t trans_b = CUBLAS_OP_N;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    int32_t bias_type = -1;
    void* bias = nullptr;
    void* aux = nullptr;
    int64_t aux_ld = 0;
    int32_t sms = 0;  // 0: all
    bool biased() const {
        return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    }
    bool keeps_sum() const {
        return epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
               epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    }
    bool has_matrix() const { return keeps_sum() || epilogue == CUBLASLT_EPILOGUE_DGELU; }
};
struct Problem {
    Operation operation;
    Layout a, b, d;
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
};

enum Order : int32_t { straight, split, even_odd, n_orders };
struct Algorithm {
    int32_t order;
    uint32_t align_a, align_b, align_c, align_d;
    uint32_t epilogue;
    uint64_t workspace;
};

struct Call {
    Problem p;
    Algorithm algorithm;
    float alpha, beta;
    const void* a;
    const void* b;
    void* d;
    float* workspace;
};

// Computes the product in device memory.
cudaError_t multiply(const Call& call);

}  // namespace emulator::cublas_lt
