// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt: row-major, with fp32 sums for every operand type, and with bias and
// activation fused into the product where cuBLASLt has an epilogue for them. fp32 operands are
// rounded to TF32 only on request.
//
// Reproducibility: a product of one shape, alignment and workspace size always runs the same
// algorithm, and one algorithm gives the same bits in every run on the same GPU model (cuBLAS
// documentation, "Results reproducibility"). By default the algorithm is the first one of the
// library's heuristics. The heuristics depend only on the shape, the alignment, the GPU model and
// the library version, so a run and its resume choose the same algorithm. On request (autotune.hpp)
// the algorithm is the fastest one in measurements before the first step, and is stored for later
// runs (device/tuned_choices.hpp).
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "cuda/device/cuda_device.hpp"
#include "device/gemm_form.hpp"

namespace lm::cuda {

using device::GemmForm;

// Operations fused into a product. The library's GELU is the tanh form. The library computes the
// GELU from the fp32 sum, before the sum is rounded to the 16-bit pre_activation. So
// device::activation_forward(), which reads pre_activation, cannot recompute the same bits.
enum class Epilogue {
    none,
    bias,          // c += bias in every row
    gelu,          // pre_activation = c, then c = gelu(c)
    gelu_bias,     // c += bias, pre_activation = c, then c = gelu(c)
    dgelu,         // c *= gelu'(pre_activation)
    bias_gradient  // bias_gradient = column sums of a, in a TN product
};

inline bool is_gelu(Epilogue epilogue) {
    return epilogue == Epilogue::gelu || epilogue == Epilogue::gelu_bias;
}

struct FusedProduct {
    GemmForm form = GemmForm::nt;
    i64 m = 0;
    i64 n = 0;
    i64 k = 0;
    const void* a = nullptr;     // `type`, contiguous, shape by `form`
    const void* b = nullptr;     // `type`, contiguous, shape by `form`
    void* c = nullptr;           // [m, n] `c_type`, contiguous
    bool accumulate = false;     // add to c
    DType type = DType::fp32;    // fp32, bf16 or fp16
    DType c_type = DType::fp32;  // `type` or fp32
    Epilogue epilogue = Epilogue::none;
    const void* bias = nullptr;      // [n] c_type
    void* pre_activation = nullptr;  // [m, n] c_type; read by dgelu, written by gelu
    void* bias_gradient = nullptr;   // [m] c_type, overwritten
};

// A function that performs the product's epilogue by separate kernels. For dgelu and bias_gradient
// it is called after the product. For bias it is called before the product. It then writes the bias
// to every row of c, and the product is added to c, so that the sum is rounded once. For gelu and
// gelu_bias the function also performs the product.
class Rest {
  public:
    template <typename F>
    Rest(const F& f)  // NOLINT(google-explicit-constructor): lambdas convert at the call
        : object_(&f), call_([](const void* object) { (*static_cast<const F*>(object))(); }) {}
    void operator()() const { call_(object_); }

  private:
    const void* object_;
    void (*call_)(const void*);
};

class CublasMatmul {
  public:
    explicit CublasMatmul(CudaDevice& device);
    ~CublasMatmul();
    CublasMatmul(const CublasMatmul&) = delete;
    CublasMatmul& operator=(const CublasMatmul&) = delete;

    // Allows later fp32 products to round their operands to TF32.
    void allow_tf32() { tf32_ = true; }
    // Plans later products for `n` fewer SMs than the GPU has, but for at least half of its SMs.
    // A product that is planned for all SMs has blocks for SMs that NCCL occupies. These blocks run
    // after all other blocks, and the product takes up to twice its time.
    void reserve_sms(int n);
    // Enqueues the product and its epilogue. Returns true when the epilogue was fused. Returns
    // false when `rest` has computed the epilogue, because for these operands cuBLASLt does not
    // support the epilogue or is slower with it. If m or n is 0, does nothing and returns false.
    // The first product of a key runs the library's heuristics on the CPU.
    bool run(device::Context& context, const FusedProduct& product, Rest rest);
    // Returns true when the operands of the epilogue have the alignment and type that fusing needs.
    static bool can_fuse(const FusedProduct& product);

    // After this call, the first product of each key measures the key's algorithms. tune(nullptr)
    // ends this; see device::Device::tune().
    void tune(device::TunedChoices* choices) {
        choices_ = choices;
        tuning_started_ = false;
    }

    // The properties of a product that determine its algorithm.
    struct Key {
        GemmForm form;
        i64 m, n, k;
        DType type, c_type;
        bool tf32;
        Epilogue epilogue;
        bool accumulate;
        u32 align_a, align_b, align_c;  // bytes, at most 16
        i64 workspace;                  // bytes
        int sms;                        // SMs that the product is planned for; 0: all
        auto operator<=>(const Key&) const = default;
    };
    // A product in cuBLASLt's descriptors, and the algorithm that computes it.
    struct Plan {
        Epilogue epilogue = Epilogue::none;  // the fused epilogue
        cublasLtMatmulDescOpaque_t operation;
        cublasLtMatrixLayoutOpaque_t a, b, c;
        cublasLtMatmulAlgo_t algorithm{};
        size_t workspace = 0;
    };

    // The functions below are used by autotune.cpp.
    // Returns true in the first call after tune(): the GPU may have been idle and needs a warm-up.
    bool is_first_since_tune() { return !std::exchange(tuning_started_, true); }
    // Returns a plan of the product with `epilogue` instead of product.epilogue, and without an
    // algorithm.
    Plan described(const FusedProduct& product, Epilogue epilogue) const;
    // Returns plans with the algorithms that the library's heuristics rank best, at most `most`,
    // best first. The list is empty when cuBLASLt does not support these operands.
    std::vector<Plan> candidates(Plan plan, const FusedProduct& product, const Key& key,
                                 int most) const;
    // Returns false when cuBLASLt rejects the plan's algorithm; else sets plan.workspace.
    bool accepts(Plan& plan, const FusedProduct& product) const;
    // Enqueues `product` with `plan`, a plan of the product's key.
    void run_as(device::Context& context, Plan plan, const FusedProduct& product, Rest rest) const;

  private:
    const Plan& plan_of(device::Context& context, const FusedProduct& product, Rest rest);
    Plan first_choice(const FusedProduct& product, const Key& key) const;
    void point(Plan& plan, const FusedProduct& product) const;
    void check(cublasStatus_t status, const FusedProduct& product) const;

    CudaDevice& device_;
    cublasLtHandle_t handle_ = nullptr;
    bool tf32_ = false;
    int sms_ = 0;  // SMs that products are planned for; 0: all
    device::TunedChoices* choices_ = nullptr;
    bool tuning_started_ = false;
    std::map<Key, Plan> plans_;
};

}  // namespace lm::cuda
