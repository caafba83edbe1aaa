// SPDX-License-Identifier: Apache-2.0
// The list of operation cases on a GPU or on the emulator.
#include <algorithm>
#include <cstdlib>

#include "cpu/cpu_device.hpp"
#include "device/compare.hpp"
#include "device/op_case.hpp"
#include "support/catch.hpp"
#include "train/open_device.hpp"

using namespace lm;
using namespace lm::test;

namespace {

// Returns true when the environment's LM_TEST_CASES is unset or part of the case's name.
bool chosen(const OpCase& op_case) {
    const char* const part = std::getenv("LM_TEST_CASES");
    return part == nullptr || op_case.name.find(part) != std::string::npos;
}

// Opens the GPU. LM_TEST_ATTENTION=cudnn selects attention by cuDNN.
std::unique_ptr<device::Device> open_gpu() {
    auto gpu = train::cuda_plugin().open_device(0);
    const char* const attention = std::getenv("LM_TEST_ATTENTION");
    if (attention != nullptr) CHECK(gpu->use_cudnn(true) == "");
    return gpu;
}

}  // namespace

// LM_TEST_EVERY=n runs every n-th case, for tools that make the cases slow.
TEST_CASE("operations agree with the reference in double precision", "[ops][cases]") {
    const char* const text = std::getenv("LM_TEST_EVERY");
    const int every = text != nullptr ? std::max(1, std::atoi(text)) : 1;
    int number = 0;
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto gpu = open_gpu();
    for (const OpCase& op_case : op_cases()) {
        if (number++ % every != 0 || !chosen(op_case)) continue;
        const OpCase c = prepared(*reference, op_case, type);
        compare(c.name + " " + std::string(name_of(type)), run_case(*gpu, c, type),
                run_case(*reference, c, DType::fp64),
                [&](const std::string& tensor) { return bound_of(c, tensor, type); });
    }
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
    for (const OpCase& op_case : op_cases()) {
        if (op_case.name.find("_backward") == std::string::npos || !chosen(op_case)) continue;
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
        CHECK_THROWS_WITH(
            run_case(*gpu, c, type),
            ContainsSubstring("of shared memory for each block, more than this GPU has"));
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
