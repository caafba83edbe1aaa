// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt: row-major as everything here, sums in fp32 whatever the type of the
// operands, the work around a product fused into it where the library can (its epilogues). fp32
// products are fp32 products; TF32 only on request.
//
// The same bits again: a product of one shape, alignment and workspace always runs the same
// algorithm, and NVIDIA promises that one algorithm gives the same bits at every run on the same
// GPU model (cuBLAS documentation, "Results reproducibility"). Which algorithm that is, is settled
// in one of two ways. Pinned, the default: the first one that the library's heuristics name, which
// depends on the shape, the GPU model and the library alone; a run and its resume choose alike.
// Tuned, on request (autotune.hpp): the fastest by measurement before the first step, kept for all
// who come later (device/tuned_choices.hpp).
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "cuda/cuda_device.hpp"

namespace lm::cuda {

// c[rows, cols] = op(a) op(b), with `depth` summed over:
// x_wt: a [rows, depth], b [cols, depth]; x_w: a [rows, depth], b [depth, cols];
// xt_w: a [depth, rows], b [depth, cols].
enum class Form { x_wt, x_w, xt_w };

// What can be fused into a product. The library's GELU is by tanh, and of the sum before that is
// rounded to 16 bits, so device::activation_forward() cannot make it again with the same bits.
enum class Epilogue {
    none,
    bias,          // c += bias in every row
    gelu,          // pre_activation = c, then c = gelu(c), by tanh
    gelu_bias,     // the same after c += bias
    dgelu,         // c *= gelu'(pre_activation), by tanh
    bias_gradient  // sums of a's columns, of an xt_w product
};

inline bool is_gelu(Epilogue epilogue) {
    return epilogue == Epilogue::gelu || epilogue == Epilogue::gelu_bias;
}

struct Product {
    Form form = Form::x_wt;
    i64 rows = 0;
    i64 cols = 0;
    i64 depth = 0;
    const void* a = nullptr;  // of `type`, contiguous as all of them
    const void* b = nullptr;
    void* c = nullptr;  // of `c_type`
    bool accumulate = false;
    DType type = DType::fp32;    // or bf16, fp16
    DType c_type = DType::fp32;  // `type`, or fp32
    Epilogue epilogue = Epilogue::none;
    const void* bias = nullptr;      // [cols] of c_type
    void* pre_activation = nullptr;  // [rows, cols] of c_type; read by dgelu, written by gelu
    void* bias_gradient = nullptr;   // [rows] of c_type, overwritten
};

// A function that does by kernels of our own what the product's epilogue was to do: after the
// product, but for a bias, which it writes into every row of c before the product is added to it,
// so that the sum is rounded once. Of gelu and gelu_bias it does all, the product too.
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

class Matmul {
  public:
    explicit Matmul(CudaDevice& device);
    ~Matmul();
    Matmul(const Matmul&) = delete;
    Matmul& operator=(const Matmul&) = delete;

    // Products of fp32 round their operands to TF32 from now on.
    void allow_tf32() { tf32_ = true; }
    // Products from here on are planned for the GPU without that many of its multiprocessors, but
    // for half of them at least. The blocks of a product that find their multiprocessor held run
    // when the others are done, and it takes up to twice its time.
    void reserve_sms(int n);
    // True: with its epilogue. False: `rest` ran instead, because the library lacks the epilogue
    // for these operands, or is slower with it. The first product of a shape asks the library's
    // heuristics, on the host.
    bool run(device::Context& context, const Product& product, Rest rest);
    // Whether the operands of its epilogue are fit to be fused; GELU is not asked for otherwise.
    static bool can_fuse(const Product& product);

    // Until nullptr: products of shapes that are new are measured, see device::Device::tune().
    void tune(device::TunedChoices* choices) {
        choices_ = choices;
        warm_ = false;
    }

    // All that the choice of an algorithm depends on.
    struct Key {
        Form form;
        i64 rows, cols, depth;
        DType type, c_type;
        bool tf32;
        Epilogue epilogue;
        bool accumulate;
        u32 align_a, align_b, align_c;  // bytes, at most 16
        i64 workspace;                  // bytes
        int multiprocessors;            // 0: all
        auto operator<=>(const Key&) const = default;
    };
    // How a product is done: what it is told about, and the algorithm.
    struct Plan {
        Epilogue epilogue = Epilogue::none;  // what is fused
        cublasLtMatmulDescOpaque_t operation;
        cublasLtMatrixLayoutOpaque_t a, b, c;
        cublasLtMatmulAlgo_t algorithm{};
        size_t workspace = 0;
    };

    // For autotune.cpp.
    // True at the first call since tune(): the GPU may have been idle until now.
    bool begins_cold() { return !std::exchange(warm_, true); }
    // A plan of this product with `epilogue` in the place of its own, without an algorithm.
    Plan described(const Product& product, Epilogue epilogue) const;
    // The best algorithms for it by the library's heuristics, best first, at most `most`; none
    // where it has none for these operands.
    std::vector<Plan> candidates(Plan plan, const Product& product, const Key& key, int most) const;
    // False: the library refuses the plan's algorithm. Fills in the workspace that it takes.
    bool accepts(Plan& plan, const Product& product) const;
    // As run(), with a plan of the product's key.
    void run_as(device::Context& context, Plan plan, const Product& product, Rest rest) const;

  private:
    const Plan& plan_of(device::Context& context, const Product& product, Rest rest);
    Plan first_choice(const Product& product, const Key& key) const;
    void point(Plan& plan, const Product& product) const;
    void check(cublasStatus_t status, const Product& product) const;

    CudaDevice& device_;
    cublasLtHandle_t handle_ = nullptr;
    bool tf32_ = false;
    int multiprocessors_ = 0;  // that products are planned for; 0: all
    device::TunedChoices* choices_ = nullptr;
    bool warm_ = false;
    std::map<Key, Plan> plans_;
};

}  // namespace lm::cuda
