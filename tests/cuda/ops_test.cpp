// SPDX-License-Identifier: Apache-2.0
// Runs the list of operation cases on a GPU or on the emulator.
#include <cstdlib>
#include <map>
#include <set>

#include "chosen_cases.hpp"
#include "cpu/cpu_device.hpp"
#include "device/compare.hpp"
#include "device/op_case.hpp"
#include "support/catch.hpp"
#include "train/start/open_device.hpp"

using namespace lm;
using namespace lm::test;

namespace {

// Returns whether the tests select attention by cuDNN (LM_TEST_ATTENTION is set).
bool tests_cudnn() {
    return std::getenv("LM_TEST_ATTENTION") != nullptr;
}

std::unique_ptr<device::Device> open_gpu() {
    auto gpu = train::cuda_plugin().open_device(0);
    if (tests_cudnn()) CHECK(gpu->use_cudnn(true) == "");
    return gpu;
}

// Returns whether lm-train may use cuDNN for the case. This is true for attention in 16 bits
// without dropout.
bool may_use_cudnn(const OpCase& c, DType type) {
    return c.name.starts_with("attention_") && c.name.ends_with(" p=0") && type != DType::fp32;
}

}  // namespace

// LM_TEST_EVERY=n runs about one of n cases of each operation, for tools that make the cases slow;
// LM_TEST_CASES=text runs the cases whose names contain this text.
TEST_CASE("operations agree with the reference in double precision", "[ops][cases]") {
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto gpu = open_gpu();
    const auto cases = chosen_cases();
    REQUIRE_FALSE(cases.empty());
    for (const OpCase* const op_case : cases) {
        if (tests_cudnn() && !may_use_cudnn(*op_case, type)) continue;
        const OpCase c = prepared(*reference, *op_case, type);
        compare(c.name + " " + std::string(name_of(type)), run_case(*gpu, c, type),
                run_case(*reference, c, DType::fp64),
                [&](const std::string& tensor) { return bound_of(c, tensor, type); });
    }
}

TEST_CASE("a part of the cases has cases of every operation, with every option", "[chosen]") {
    std::map<std::string, int> n_all;
    for (const OpCase& c : op_cases()) ++n_all[operation_of(c)];
    CHECK(n_all.size() > 25);
    for (const int every : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}) {
        std::map<std::string, int> n_chosen;
        std::set<std::string> options;
        for (const OpCase* const c : chosen_cases("", every)) {
            ++n_chosen[operation_of(*c)];
            options.insert(operation_of(*c) + c->name.substr(c->name.rfind(' ')));
        }
        for (const auto& [operation, n] : n_all) {
            INFO(operation << ": " << n_chosen[operation] << " of " << n << ", every " << every);
            CHECK(n_chosen[operation] >= 1);
            CHECK(n_chosen[operation] >= n / every - 1);
            CHECK(n_chosen[operation] <= n / every + 2);
        }
        if (every > 5) continue;  // the five cases of dropout may be missing
        for (const char* const option :
             {"attention_forward p=0", "attention_backward p=0", "attention_backward p=0.2",
              "linear_backward_weight accumulate=false",
              "linear_backward_weight accumulate=true"}) {
            INFO(option << ", every " << every);
            CHECK(options.contains(option));
        }
    }
}

TEST_CASE("cases chosen by a part of their names are counted without the others", "[chosen]") {
    for (const OpCase* const c : chosen_cases("attention_backward", 4))
        CHECK(operation_of(*c) == "attention_backward");
    CHECK(chosen_cases("attention_backward", 1000).size() == 1);
    CHECK(chosen_cases("no such operation", 1).empty());
}

// [at_once]: tests that do not depend on when the GPU runs its work.

// The emulator can run blocks and threads in reverse order; the order of a GPU is unspecified.
TEST_CASE("the bits do not depend on the order of blocks and threads", "[ops][at_once]") {
    const DType type = GENERATE(DType::fp32, DType::bf16);
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto gpu = train::cuda_plugin().open_device(0);
    const bool reversed = std::getenv("EMULATED_CUDA_REVERSE") != nullptr;
    const auto reverse = [](bool on) {
        if (on) {
            setenv("EMULATED_CUDA_REVERSE", "1", 1);
        } else {
            unsetenv("EMULATED_CUDA_REVERSE");
        }
    };
    const char* const part = std::getenv("LM_TEST_CASES");
    for (const OpCase* const chosen : chosen_cases(part != nullptr ? part : "", 1)) {
        const OpCase& op_case = *chosen;
        if (op_case.name.find("_backward") == std::string::npos) continue;
        INFO(op_case.name << " " << name_of(type));
        const OpCase c = prepared(*reference, op_case, type);
        const Values first = run_case(*gpu, c, type);
        reverse(!reversed);
        const Values second = run_case(*gpu, c, type);
        reverse(reversed);
        CHECK(second == first);
    }
}

TEST_CASE("a GPU with little shared memory rejects only wide heads of 16 bits", "[ops][at_once]") {
    const DType type = GENERATE(DType::bf16, DType::fp32);
    setenv("EMULATED_CUDA_CAPABILITY", "89", 1);
    const auto gpu = train::cuda_plugin().open_device(0);
    if (gpu->name().find("emulated") == std::string::npos) return;
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    int n_refused = 0;
    for (const OpCase& op_case : op_cases()) {
        if (!op_case.name.starts_with("attention_backward")) continue;
        INFO(op_case.name);
        const OpCase c = prepared(*reference, op_case, type);
        if (type == DType::fp32 || op_case.name.find(" D=256 ") == std::string::npos) {
            CHECK_NOTHROW(run_case(*gpu, c, type));
            continue;
        }
        ++n_refused;
        CHECK_THROWS_WITH(run_case(*gpu, c, type), ContainsSubstring("shared memory"));
    }
    CHECK((n_refused > 0) == (type == DType::bf16));
    unsetenv("EMULATED_CUDA_CAPABILITY");
}

TEST_CASE("a recomputed activation has the same bits on a GPU", "[ops]") {
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto gpu = train::cuda_plugin().open_device(0);
    int n_compared = 0;
    for (const OpCase& op_case : op_cases()) {
        if (!op_case.name.starts_with("linear_forward recomputed")) continue;
        const OpCase c = prepared(*reference, op_case, type);
        const Values kept = run_case(*gpu, c, type);
        if (kept.count("pre") == 0) continue;
        INFO(c.name << " " << name_of(type));
        const std::vector<double>& y = kept.at("y");
        const auto activation = static_cast<device::Activation>(c.name.back() - '0');
        OpCase again = activation_case(1, static_cast<i64>(y.size()), activation);
        again.tensor("x").values = kept.at("pre");
        CHECK(run_case(*gpu, again, type).at("y") == y);
        ++n_compared;
    }
    CHECK(n_compared > 10);
}
