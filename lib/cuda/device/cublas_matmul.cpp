// SPDX-License-Identifier: Apache-2.0
// cuBLASLt is column-major: a row-major [m, n] matrix is its n x m matrix with leading dimension n.
// So c = op(a) op(b) is computed as c^T = op(b)^T op(a)^T: the library's A is b, and its B is a.
// The length of a bias is n; the cuBLASLt documentation calls it "rows of D".
#include "cuda/device/cublas_matmul.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cost/cuda_scratch.hpp"
#include "cuda/device/autotune.hpp"

namespace lm::cuda {
namespace {

// The largest alignment in bytes that cuBLASLt's kernels profit from.
constexpr u32 max_alignment = 16;

u32 alignment_of(const void* data) {
    const auto address = reinterpret_cast<uintptr_t>(data) | max_alignment;
    return static_cast<u32>(address & (~address + 1));
}

cudaDataType_t library_type(DType type) {
    if (type == DType::bf16) return CUDA_R_16BF;
    if (type == DType::fp16) return CUDA_R_16F;
    return CUDA_R_32F;
}

std::string text_of(const FusedProduct& p) {
    return fmt::format("product of [{}, {}] and [{}, {}] in {}", p.m, p.k, p.k, p.n,
                       name_of(p.type));
}

cublasLtEpilogue_t library_epilogue(Epilogue epilogue) {
    switch (epilogue) {
        case Epilogue::none:
            return CUBLASLT_EPILOGUE_DEFAULT;
        case Epilogue::bias:
            return CUBLASLT_EPILOGUE_BIAS;
        case Epilogue::gelu:
            return CUBLASLT_EPILOGUE_GELU_AUX;
        case Epilogue::gelu_bias:
            return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
        case Epilogue::dgelu:
            return CUBLASLT_EPILOGUE_DGELU;
        case Epilogue::bias_gradient:
            return CUBLASLT_EPILOGUE_BGRADB;  // a is the library's B
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

bool takes_bias(Epilogue epilogue) {
    return epilogue == Epilogue::bias || epilogue == Epilogue::gelu_bias;
}

bool has_matrix(Epilogue epilogue) {
    return epilogue == Epilogue::dgelu || is_gelu(epilogue);
}

template <typename T>
cublasStatus_t set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute,
                   const T& value) {
    return cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value);
}

// The preferences for a search of the library for algorithms.
class Preference {
  public:
    Preference() { status_ = cublasLtMatmulPreferenceInit(&preference_); }
    template <typename T>
    void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
        if (status_ != CUBLAS_STATUS_SUCCESS) return;
        status_ =
            cublasLtMatmulPreferenceSetAttribute(&preference_, attribute, &value, sizeof value);
    }
    cublasStatus_t status() const { return status_; }
    cublasLtMatmulPreference_t get() { return &preference_; }

  private:
    cublasLtMatmulPreferenceOpaque_t preference_;
    cublasStatus_t status_;
};

}  // namespace

// Checks the requirements of the cuBLASLt documentation for the operands of an epilogue. Also
// requires vectors to be aligned to 16 bytes, because some kernels need this alignment and the
// heuristics do not check it. Does not fuse a GELU for fp32, because the library's GELU is only
// accurate enough for 16-bit results.
bool CublasMatmul::can_fuse(const FusedProduct& p) {
    switch (p.epilogue) {
        case Epilogue::none:
            return true;
        case Epilogue::bias:
            return alignment_of(p.bias) == max_alignment;
        case Epilogue::gelu:
        case Epilogue::gelu_bias:
        case Epilogue::dgelu:
            return is_half(p.type) && p.n % 8 == 0 &&
                   alignment_of(p.pre_activation) == max_alignment &&
                   (p.epilogue != Epilogue::gelu_bias || alignment_of(p.bias) == max_alignment);
        case Epilogue::bias_gradient:
            return alignment_of(p.bias_gradient) == max_alignment;
    }
    return false;
}

CublasMatmul::CublasMatmul(CudaDevice& device) : device_(device) {
    const cublasStatus_t status = cublasLtCreate(&handle_);
    if (status == CUBLAS_STATUS_SUCCESS) return;
    run_error(fmt::format("cuda:{}", device.index()), "cannot initialize cuBLASLt: {} ({})",
              cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

CublasMatmul::~CublasMatmul() {
    cublasLtDestroy(handle_);
}

void CublasMatmul::reserve_sms(int n) {
    const int all = device_.properties().multiProcessorCount;
    sms_ = n == 0 ? 0 : std::max(all - n, (all + 1) / 2);
}

void CublasMatmul::check(cublasStatus_t status, const FusedProduct& product) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    run_error(fmt::format("cuda:{}", device_.index()), "{}: cuBLASLt, {}: {} ({})",
              device_.operation(), text_of(product), cublasLtGetStatusString(status),
              cublasLtGetStatusName(status));
}

CublasMatmul::Plan CublasMatmul::described(const FusedProduct& p, Epilogue epilogue) const {
    Plan plan;
    plan.epilogue = epilogue;
    const bool fast_tf32 = tf32_ && p.type == DType::fp32;
    check(cublasLtMatmulDescInit(&plan.operation,
                                 fast_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
          p);
    const cublasOperation_t first = p.form == GemmForm::nt ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = p.form == GemmForm::tn ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, first), p);
    check(set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, second), p);
    check(set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(epilogue)), p);
    if (sms_ > 0) {
        check(set(plan.operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, i32{sms_}), p);
    }
    if (has_matrix(epilogue)) {
        check(set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, i64{p.n}), p);
    }
    if (takes_bias(epilogue) || epilogue == Epilogue::bias_gradient) {
        const i32 type = library_type(p.c_type);
        check(set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type), p);
    }
    // width and height of the stored row-major matrices; the width is the leading dimension.
    const i64 a_width = p.form == GemmForm::tn ? p.m : p.k;
    const i64 a_height = p.form == GemmForm::tn ? p.k : p.m;
    const i64 b_width = p.form == GemmForm::nt ? p.k : p.n;
    const i64 b_height = p.form == GemmForm::nt ? p.n : p.k;
    const auto layout = [&](cublasLtMatrixLayoutOpaque_t& target, DType type, i64 width,
                            i64 height) {
        check(cublasLtMatrixLayoutInit(&target, library_type(type), static_cast<u64>(width),
                                       static_cast<u64>(height), width),
              p);
    };
    layout(plan.a, p.type, a_width, a_height);
    layout(plan.b, p.type, b_width, b_height);
    layout(plan.c, p.c_type, p.n, p.m);
    return plan;
}

// Sets the pointers of the epilogue's operands in the plan. The pointers a, b and c are passed to
// cublasLtMatmul() instead.
void CublasMatmul::point(Plan& plan, const FusedProduct& p) const {
    if (takes_bias(plan.epilogue)) {
        check(set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias), p);
    }
    if (plan.epilogue == Epilogue::bias_gradient) {
        check(set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias_gradient), p);
    }
    if (has_matrix(plan.epilogue)) {
        check(set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.pre_activation), p);
    }
}

std::vector<CublasMatmul::Plan> CublasMatmul::candidates(Plan plan, const FusedProduct& p,
                                                         const Key& key, int most) const {
    point(plan, p);
    Preference preference;
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<u64>(key.workspace));
    // With split-K, the library must add the partial sums in fp32, never in the type of the result.
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   static_cast<u32>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.align_b);
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.align_a);
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.align_c);
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.align_c);
    check(preference.status(), p);
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
    int n = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, &plan.operation, &plan.b, &plan.a, &plan.c, &plan.c,
                                       preference.get(), most, found.data(), &n);
    // The library also returns INVALID_VALUE for an epilogue that it does not support for these
    // operands. This test does not hide an error for invalid operands, because with such operands
    // the product without the epilogue fails, too.
    const bool unsupported =
        status == CUBLAS_STATUS_NOT_SUPPORTED ||
        (status == CUBLAS_STATUS_INVALID_VALUE && plan.epilogue != Epilogue::none);
    if (unsupported) return {};
    check(status, p);
    std::vector<Plan> plans;
    for (int i = 0; i < n; ++i) {
        const auto& result = found[static_cast<size_t>(i)];
        if (result.state != CUBLAS_STATUS_SUCCESS) continue;
        plan.algorithm = result.algo;
        plan.workspace = result.workspaceSize;
        plans.push_back(plan);
    }
    return plans;
}

bool CublasMatmul::accepts(Plan& plan, const FusedProduct& p) const {
    point(plan, p);
    cublasLtMatmulHeuristicResult_t result;
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(
        handle_, &plan.operation, &plan.b, &plan.a, &plan.c, &plan.c, &plan.algorithm, &result);
    const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                         status == CUBLAS_STATUS_INVALID_VALUE ||
                         status == CUBLAS_STATUS_ARCH_MISMATCH;
    if (refused) return false;
    check(status, p);
    plan.workspace = result.workspaceSize;
    return true;
}

// Returns the plan that is used without autotuning. It does not fuse bias gradients. column_sums()
// computes them, because published measurements report that the epilogue is slower. Autotuning
// measures both ways.
CublasMatmul::Plan CublasMatmul::first_choice(const FusedProduct& p, const Key& key) const {
    std::vector<Epilogue> epilogues = {Epilogue::none};
    const bool fuse = p.epilogue != Epilogue::bias_gradient && can_fuse(p);
    if (fuse && p.epilogue != Epilogue::none) epilogues.insert(epilogues.begin(), p.epilogue);
    for (const Epilogue epilogue : epilogues) {
        if (epilogue != p.epilogue && is_gelu(p.epilogue)) return {};
        const auto plans = candidates(described(p, epilogue), p, key, 1);
        if (!plans.empty()) return plans.front();
    }
    run_error(fmt::format("cuda:{}", device_.index()), "{}: cuBLASLt has no algorithm for a {}",
              device_.operation(), text_of(p));
}

const CublasMatmul::Plan& CublasMatmul::plan_of(device::Context& context, const FusedProduct& p,
                                                Rest rest) {
    const i64 workspace = context.workspace ? context.workspace.bytes() : 0;
    const Key key{.form = p.form,
                  .m = p.m,
                  .n = p.n,
                  .k = p.k,
                  .type = p.type,
                  .c_type = p.c_type,
                  .tf32 = tf32_,
                  .epilogue = can_fuse(p) ? p.epilogue : Epilogue::none,
                  .accumulate = p.accumulate,
                  .align_a = alignment_of(p.a),
                  .align_b = alignment_of(p.b),
                  .align_c = alignment_of(p.c),
                  .workspace = std::min(workspace, cost::cuda_product_bytes),
                  .sms = sms_};
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    const Plan plan = choices_ == nullptr ? first_choice(p, key)
                                          : tuned_plan(*this, *choices_, context, p, key, rest);
    return plans_.emplace(key, plan).first->second;
}

void CublasMatmul::run_as(device::Context& context, Plan plan, const FusedProduct& p,
                          Rest rest) const {
    const bool fused = plan.epilogue == p.epilogue;
    if (!fused && is_gelu(p.epilogue)) return rest();
    const bool rest_first = !fused && p.epilogue == Epilogue::bias;  // see Rest
    if (rest_first) rest();
    point(plan, p);
    const float alpha = 1.0F;
    const float beta = p.accumulate || rest_first ? 1.0F : 0.0F;
    check(cublasLtMatmul(handle_, &plan.operation, &alpha, p.b, &plan.b, p.a, &plan.a, &beta, p.c,
                         &plan.c, p.c, &plan.c, &plan.algorithm, begin_of(context.workspace),
                         plan.workspace, device_.stream()),
          p);
    if (!fused && !rest_first) rest();
}

bool CublasMatmul::run(device::Context& context, const FusedProduct& product, Rest rest) {
    if (product.m == 0 || product.n == 0) return false;
    const Plan& plan = plan_of(context, product, rest);
    run_as(context, plan, product, rest);
    return plan.epilogue == product.epilogue;
}

}  // namespace lm::cuda
