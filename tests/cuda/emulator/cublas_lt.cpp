// SPDX-License-Identifier: Apache-2.0
// Emulated cuBLASLt: the functions that lib/cuda uses, with the checks of the library's
// documentation. There are three algorithms. They add in different orders, so that their results
// differ in the last bits; one of them needs workspace. As in the library, an algorithm supports
// the alignment that the search was given, and a misaligned bias is found only when the product
// runs. EMULATED_CUBLASLT_EPILOGUES=0: only the default epilogue is supported.
// EMULATED_CUBLASLT_STATUS=N: the search for algorithms returns status N.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cublas_lt.hpp"
#include "events.hpp"
#include "memory.hpp"
#include "stream.hpp"

struct cublasLtContext {
    bool open = true;
};

namespace {

using namespace emulator::cublas_lt;

// ---- Content of the opaque structs -------------------------------------------------------------

template <typename Opaque, typename Content>
class As {
  public:
    static constexpr uint64_t mark = sizeof(Content) * 0x9E3779B97F4A7C15ULL;
    static void put(Opaque* opaque, const Content& content) {
        static_assert(sizeof(Content) + sizeof(mark) <= sizeof(Opaque));
        opaque->data[0] = mark;
        std::memcpy(opaque->data + 1, &content, sizeof content);
    }
    // Returns false when the struct was never initialized.
    static bool get(const Opaque* opaque, Content& content) {
        if (opaque == nullptr || opaque->data[0] != mark) return false;
        std::memcpy(static_cast<void*>(&content), opaque->data + 1, sizeof content);
        return true;
    }
};

struct Preference {
    uint64_t workspace = 0;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
    uint32_t align_a = 256, align_b = 256, align_c = 256, align_d = 256;
};
using LayoutOf = As<cublasLtMatrixLayoutOpaque_t, Layout>;
using OperationOf = As<cublasLtMatmulDescOpaque_t, Operation>;
using PreferenceOf = As<cublasLtMatmulPreferenceOpaque_t, Preference>;
using AlgorithmOf = As<cublasLtMatmulAlgo_t, Algorithm>;

template <typename T>
cublasStatus_t take(T& target, const void* value, size_t bytes) {
    if (value == nullptr || bytes != sizeof target) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&target, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

// ---- Checks of a product -----------------------------------------------------------------------

cublasStatus_t read_problem(Problem& p, cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                            cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    Layout c_layout;
    if (!OperationOf::get(operation, p.operation) || !LayoutOf::get(a, p.a) ||
        !LayoutOf::get(b, p.b) || !LayoutOf::get(c, c_layout) || !LayoutOf::get(d, p.d)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const bool turn_a = p.operation.trans_a == CUBLAS_OP_T;
    const bool turn_b = p.operation.trans_b == CUBLAS_OP_T;
    p.m = turn_a ? p.a.cols : p.a.rows;
    p.k = turn_a ? p.a.rows : p.a.cols;
    p.n = turn_b ? p.b.rows : p.b.cols;
    const bool fits = p.k == (turn_b ? p.b.cols : p.b.rows) && p.d.rows == p.m && p.d.cols == p.n;
    if (!fits || !(c_layout == p.d) || p.m == 0 || p.n == 0) return CUBLAS_STATUS_INVALID_VALUE;
    for (const Layout& x : {p.a, p.b, p.d}) {
        if (x.ld < x.rows) return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
}

// Checks the types against the table in the documentation of cublasLtMatmul(), and the epilogue.
cublasStatus_t supported(const Problem& p) {
    const bool same = p.a.type == p.b.type;
    const bool to_fp32 = p.d.type == CUDA_R_32F;
    const bool tf32 = p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (!same || (p.d.type != p.a.type && !to_fp32) || (tf32 && p.a.type != CUDA_R_32F)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const uint32_t epilogue = p.operation.epilogue;
    const char* const epilogues = std::getenv("EMULATED_CUBLASLT_EPILOGUES");
    const bool none = epilogues != nullptr && std::atoi(epilogues) == 0;
    if (none && epilogue != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool summed = epilogue == CUBLASLT_EPILOGUE_BGRADB;
    const bool known = epilogue == CUBLASLT_EPILOGUE_DEFAULT || p.operation.biased() || summed ||
                       p.operation.has_matrix();
    const bool typed = p.operation.bias_type == -1 || p.operation.bias_type == p.d.type;
    const bool bias = !(p.operation.biased() || summed) || (p.operation.bias != nullptr && typed);
    const bool whole = p.operation.aux_ld % 8 == 0 && p.operation.aux_ld >= p.m;
    const bool matrix = !p.operation.has_matrix() ||
                        (p.operation.aux != nullptr && whole && p.d.type != CUDA_R_32F);
    return known && bias && matrix ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// Returns the widest access that is aligned in all columns of a matrix whose address is aligned to
// `bytes`.
uint32_t widest_access(uint32_t bytes, const Layout& x) {
    uint32_t width = 16;
    const auto step = static_cast<uint64_t>(x.ld) * size_of(x.type);
    while (width > 1 && (bytes % width != 0 || step % width != 0)) width /= 2;
    return width;
}

uint64_t workspace_of(const Problem& p, int32_t order) {
    return order == split ? static_cast<uint64_t>(p.m * p.n) * 2 * sizeof(float) : 0;
}

bool is_aligned(const void* data, uint64_t bytes) {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

bool in_memory(const void* data, cudaDataType type, int64_t elements) {
    return emulator::is_device(data, static_cast<size_t>(elements) * size_of(type));
}

// Required by the documentation of cublasLtMatmul() since 12.9, also for algorithms without
// workspace.
constexpr uint64_t workspace_alignment = 256;

// Returns an error that a kernel would find at run time, which is an error of the whole device.
const char* run_time_fault(const Call& c) {
    const Operation& o = c.p.operation;
    const bool biased = o.biased();
    const bool summed = o.epilogue == CUBLASLT_EPILOGUE_BGRADB;
    const cudaDataType type = c.p.d.type;
    if ((biased || summed) && !is_aligned(o.bias, 16)) return "cuBLASLt: misaligned bias";
    if (o.has_matrix() && !is_aligned(o.aux, 16)) {
        return "cuBLASLt: misaligned auxiliary matrix";
    }
    const bool inside =
        in_memory(c.a, c.p.a.type, c.p.a.elements()) &&
        in_memory(c.b, c.p.b.type, c.p.b.elements()) && in_memory(c.d, type, c.p.d.elements()) &&
        (!biased || in_memory(o.bias, type, c.p.m)) &&
        (!summed || in_memory(o.bias, type, c.p.n)) &&
        (!o.has_matrix() || in_memory(o.aux, type, c.p.n * o.aux_ld)) &&
        (c.algorithm.workspace == 0 || emulator::is_device(c.workspace, c.algorithm.workspace));
    return inside ? nullptr : "cuBLASLt: an operand is outside of device memory";
}

// Returns the name of the code of a product. The library may choose another kernel for every
// property that its heuristics know.
std::string code_of(const Call& call, float beta) {
    const Problem& p = call.p;
    return fmt::format(
        "product {} {} {}, types {} {}, {} {}, epilogue {}, order {}, {} SMs, beta {}", p.m, p.n,
        p.k, static_cast<int>(p.a.type), static_cast<int>(p.d.type), p.operation.trans_a,
        p.operation.trans_b, p.operation.epilogue, call.algorithm.order, p.operation.sms, beta);
}

}  // namespace

// ---- Functions ---------------------------------------------------------------------------------

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
        case CUBLAS_STATUS_NOT_INITIALIZED:
            return "CUBLAS_STATUS_NOT_INITIALIZED";
        case CUBLAS_STATUS_INVALID_VALUE:
            return "CUBLAS_STATUS_INVALID_VALUE";
        case CUBLAS_STATUS_NOT_SUPPORTED:
            return "CUBLAS_STATUS_NOT_SUPPORTED";
        default:
            return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
    return cublasLtGetStatusName(status);
}

size_t cublasLtGetVersion() {
    return 130100;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type,
                                        uint64_t rows, uint64_t cols, int64_t ld) {
    LayoutOf::put(layout, {type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), ld});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t operation, cublasComputeType_t compute,
                                      cudaDataType_t scale) {
    if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    OperationOf::put(operation, {.compute = compute});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
    Operation o;
    if (!OperationOf::get(operation, o)) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
        case CUBLASLT_MATMUL_DESC_TRANSA:
            status = take(o.trans_a, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_TRANSB:
            status = take(o.trans_b, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_EPILOGUE:
            status = take(o.epilogue, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
            status = take(o.bias, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
            status = take(o.aux, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
            status = take(o.aux_ld, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: {
            int32_t all = 0;
            cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, 0);
            status = take(o.sms, value, bytes);
            const bool there = o.sms >= 0 && o.sms <= all;
            if (!there) status = CUBLAS_STATUS_INVALID_VALUE;
            break;
        }
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
            status = take(o.bias_type, value, bytes);
            break;
    }
    if (status == CUBLAS_STATUS_SUCCESS) OperationOf::put(operation, o);
    return status;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
    PreferenceOf::put(preference, {});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
    Preference p;
    if (!PreferenceOf::get(preference, p)) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
        case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
            status = take(p.workspace, value, bytes);
            break;
        case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
            status = take(p.reductions, value, bytes);
            break;
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
            status = take(p.align_a, value, bytes);
            break;
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
            status = take(p.align_b, value, bytes);
            break;
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
            status = take(p.align_c, value, bytes);
            break;
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
            status = take(p.align_d, value, bytes);
            break;
    }
    if (status == CUBLAS_STATUS_SUCCESS) PreferenceOf::put(preference, p);
    return status;
}

// Like the library, prefers the algorithm that splits the sum (split-K) for large k, if the
// preferences allow it.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int n_asked,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* n_found) {
    *n_found = 0;
    if (const char* const broken = std::getenv("EMULATED_CUBLASLT_STATUS")) {
        return static_cast<cublasStatus_t>(std::atoi(broken));
    }
    Problem p;
    Preference wish;
    if (n_asked <= 0 || !PreferenceOf::get(preference, wish)) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = read_problem(p, handle, operation, a, b, c, d);
    if (status == CUBLAS_STATUS_SUCCESS) status = supported(p);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    emulator::log(fmt::format("search for a product {} {} {}", p.m, p.n, p.k));
    const bool may_split = (wish.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
    std::vector<int32_t> orders = {straight, split, even_odd};
    if (p.k >= 16) std::swap(orders[0], orders[1]);
    for (const int32_t order : orders) {
        if (*n_found == n_asked) break;
        const bool possible = workspace_of(p, order) <= wish.workspace;
        if (order == split && (!may_split || !possible)) continue;
        const Algorithm algorithm{.order = order,
                                  .align_a = widest_access(wish.align_a, p.a),
                                  .align_b = widest_access(wish.align_b, p.b),
                                  .align_c = widest_access(wish.align_c, p.d),
                                  .align_d = widest_access(wish.align_d, p.d),
                                  .epilogue = p.operation.epilogue,
                                  .workspace = workspace_of(p, order)};
        cublasLtMatmulHeuristicResult_t& result = results[(*n_found)++];
        result = {};
        AlgorithmOf::put(&result.algo, algorithm);
        result.workspaceSize = algorithm.workspace;
        result.state = CUBLAS_STATUS_SUCCESS;
        result.wavesCount = 1.0F;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
    Problem p;
    cublasStatus_t status = read_problem(p, handle, operation, a, b, c, d);
    if (status == CUBLAS_STATUS_SUCCESS) status = supported(p);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    Algorithm how;
    if (!AlgorithmOf::get(algorithm, how) || how.order < 0 || how.order >= n_orders ||
        how.epilogue != p.operation.epilogue) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    result->workspaceSize = workspace_of(p, how.order);
    result->state = CUBLAS_STATUS_SUCCESS;
    result->wavesCount = 1.0F;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    Call call{};
    cublasStatus_t status =
        read_problem(call.p, handle, operation, a_layout, b_layout, c_layout, d_layout);
    if (status == CUBLAS_STATUS_SUCCESS) status = supported(call.p);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const int32_t n = call.p.operation.sms;
    emulator::log(n == 0 ? "product" : fmt::format("product for {} SMs", n));
    Algorithm& how = call.algorithm;
    const bool known = AlgorithmOf::get(algorithm, how) &&
                       how.epilogue == call.p.operation.epilogue &&
                       how.workspace == workspace_of(call.p, how.order);
    const bool fits =
        how.workspace <= workspace_bytes && is_aligned(workspace, workspace_alignment);
    const bool aligned = is_aligned(a, how.align_a) && is_aligned(b, how.align_b) &&
                         is_aligned(c, how.align_c) && is_aligned(d, how.align_d);
    if (!known || !fits || !aligned || a == nullptr || b == nullptr || c != d) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    emulator::load(code_of(call, *static_cast<const float*>(beta)));
    call.alpha = *static_cast<const float*>(alpha);
    call.beta = *static_cast<const float*>(beta);
    call.a = a;
    call.b = b;
    call.d = d;
    call.workspace = static_cast<float*>(workspace);
    const cudaError_t error = emulator::enqueue(stream, [call] {
        const char* const fault = run_time_fault(call);
        if (fault == nullptr) return multiply(call);
        return emulator::device_lost(cudaErrorIllegalAddress, fault);
    });
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
