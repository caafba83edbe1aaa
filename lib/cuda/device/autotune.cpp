// SPDX-License-Identifier: Apache-2.0
// A choice is stored as text: "fused" or "apart" (separate kernels for the epilogue), then the
// words of cublasLtMatmulAlgo_t. cublasLt.h permits storing these words and using them with the
// same version of the library. So the key contains the version of the library, and the GPU.
// key_text() and text_of() define a file format. A stored choice is found only with exactly the key
// text that it was stored with.
#include "cuda/device/autotune.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/error.hpp"

namespace lm::cuda {
namespace {

constexpr int max_candidates = 8;
// An idle GPU takes this time to reach its full clock frequency.
constexpr float warm_up_ms = 200;
// Every candidate is measured once in each round, so that a change of the clock frequency affects
// all candidates alike.
constexpr size_t n_rounds = 7;
constexpr int n_runs = 5;  // runs of one measurement
// If the best candidate is faster than the library's first choice by less than this fraction, which
// is within the noise of measurements, the first choice is used.
constexpr float least_gain = 0.02F;

// Returns the stored name of a key. "x_wt", "x_w" and "xt_w" are the forms NT, NN and TN, "depth"
// is k.
std::string key_text(const CudaDevice& device, const CublasMatmul::Key& k) {
    constexpr std::string_view forms[] = {"x_wt", "x_w", "xt_w"};
    constexpr std::string_view epilogues[] = {"none",      "bias",  "gelu",
                                              "gelu_bias", "dgelu", "bias_gradient"};
    const cudaDeviceProp& gpu = device.properties();
    return fmt::format(
        "{}, {} SMs{}, compute capability {}.{}, cuBLASLt {}: {} [{}, {}] depth {}, {} to {}{}, "
        "epilogue {}{}, aligned {} {} {}, workspace {}",
        gpu.name, gpu.multiProcessorCount,
        k.sms > 0 ? fmt::format(" of which {} for products", k.sms) : "", gpu.major, gpu.minor,
        cublasLtGetVersion(), forms[static_cast<size_t>(k.form)], k.m, k.n, k.k, name_of(k.type),
        name_of(k.c_type), k.tf32 ? " by TF32" : "", epilogues[static_cast<size_t>(k.epilogue)],
        k.accumulate ? ", added" : "", k.align_a, k.align_b, k.align_c, k.workspace);
}

std::string text_of(const CublasMatmul::Plan& plan, Epilogue wanted) {
    return fmt::format("{} {:x}", plan.epilogue == wanted ? "fused" : "apart",
                       fmt::join(plan.algorithm.data, " "));
}

// Parses a stored choice into `plan`. Returns false when the choice is malformed, or cuBLASLt does
// not accept its algorithm.
bool read_plan(const CublasMatmul& matmul, const std::string& text, const FusedProduct& product,
               const CublasMatmul::Key& key, CublasMatmul::Plan& plan) {
    std::istringstream words(text);
    std::string way;
    words >> way >> std::hex;
    if (way != "fused" && way != "apart") return false;
    plan = matmul.described(product, way == "fused" ? key.epilogue : Epilogue::none);
    for (u64& word : plan.algorithm.data) words >> word;
    if (way == "apart" && is_gelu(key.epilogue)) return !words.fail();
    return !words.fail() && matmul.accepts(plan, product) &&
           static_cast<i64>(plan.workspace) <= key.workspace;
}

// Measures the time that a stream takes between two points, in milliseconds.
class Timer {
  public:
    explicit Timer(CudaDevice& device) : device_(device) {
        device_.check(cudaEventCreate(&begin_));
        device_.check(cudaEventCreate(&end_));
    }
    ~Timer() {
        cudaEventDestroy(begin_);
        cudaEventDestroy(end_);
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

    template <typename Body>
    float time(const Body& body) {
        device_.check(cudaEventRecord(begin_, device_.stream()));
        body();
        device_.check(cudaEventRecord(end_, device_.stream()));
        device_.check(cudaEventSynchronize(end_));
        float milliseconds = 0;
        device_.check(cudaEventElapsedTime(&milliseconds, begin_, end_));
        return milliseconds;
    }

  private:
    CudaDevice& device_;
    cudaEvent_t begin_ = nullptr;
    cudaEvent_t end_ = nullptr;
};

// Returns the plans to measure. The first is the plan that is used without measurements
// (CublasMatmul::first_choice()). A bias in a separate kernel is measured only if cuBLASLt cannot
// fuse it, because a fused bias is always faster.
std::vector<CublasMatmul::Plan> ways(const CublasMatmul& matmul, const FusedProduct& product,
                                     const CublasMatmul::Key& key) {
    std::vector<Epilogue> epilogues = {key.epilogue};
    if (key.epilogue != Epilogue::none) epilogues.push_back(Epilogue::none);
    if (key.epilogue == Epilogue::bias_gradient) std::ranges::reverse(epilogues);
    std::vector<CublasMatmul::Plan> plans;
    for (const Epilogue epilogue : epilogues) {
        const auto more =
            matmul.candidates(matmul.described(product, epilogue), product, key, max_candidates);
        plans.insert(plans.end(), more.begin(), more.end());
        if (epilogue == Epilogue::bias && !plans.empty()) break;
        if (!is_gelu(key.epilogue)) continue;
        // An empty plan stands for a GELU in a separate kernel: run() then calls `rest`, which
        // computes a product without GELU, then the GELU. The product without GELU has its own key.
        plans.emplace_back();
        break;
    }
    return plans;
}

CublasMatmul::Plan fastest(CublasMatmul& matmul, device::Context& context,
                           const FusedProduct& product, const CublasMatmul::Key& key, Rest rest) {
    const auto plans = ways(matmul, product, key);
    if (plans.empty()) {
        run_error(device_of(context).name(), "cuBLASLt has no algorithm for {}",
                  key_text(device_of(context), key));
    }
    Timer timer(device_of(context));
    const auto time = [&](const CublasMatmul::Plan& plan) {
        return timer.time([&] {
            for (int i = 0; i < n_runs; ++i) matmul.run_as(context, plan, product, rest);
        });
    };
    if (matmul.is_first_since_tune()) {
        for (float spent = 0; spent < warm_up_ms;) spent += time(plans.front());
    }
    std::vector<std::vector<float>> times(plans.size());
    for (size_t round = 0; round < n_rounds; ++round) {
        for (size_t i = 0; i < plans.size(); ++i) times[i].push_back(time(plans[i]));
    }
    return plans[device::fastest_algorithm(std::move(times), least_gain)];
}

}  // namespace

CublasMatmul::Plan tuned_plan(CublasMatmul& matmul, device::TunedChoices& choices,
                              device::Context& context, const FusedProduct& product,
                              const CublasMatmul::Key& key, Rest rest) {
    const std::string name = key_text(device_of(context), key);
    std::string text = choices.find(name);
    if (text.empty()) {
        text = choices.store(name,
                             text_of(fastest(matmul, context, product, key, rest), key.epilogue));
    }
    CublasMatmul::Plan plan;
    if (read_plan(matmul, text, product, key, plan)) return plan;
    run_error("autotune",
              "the stored algorithm for \"{}\" is invalid for this cuBLASLt: {}: delete its file "
              "in the directory of --autotune",
              name, text);
}

}  // namespace lm::cuda
