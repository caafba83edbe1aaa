// SPDX-License-Identifier: Apache-2.0
// The list of operation cases on a GPU, or on the emulated one.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "base/error.hpp"
#include "cpu/cpu.hpp"
#include "device/compare.hpp"
#include "device/op_case.hpp"
#include "train/device.hpp"

using namespace lm;
using namespace lm::test;

namespace {

// False: the backend has the operation not yet.
bool run(device::Device& gpu, const OpCase& c, DType type, Values& got) {
    try {
        got = run_case(gpu, c, type);
    } catch (const Error& error) {
        if (std::string(error.what()).find("not written yet") == std::string::npos) throw;
        return false;
    }
    return true;
}

}  // namespace

TEST_CASE("operations agree with the reference in double precision", "[ops]") {
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto gpu = train::cuda_plugin().open_device(0);
    for (const OpCase& op_case : op_cases()) {
        const OpCase c = prepared(*reference, op_case, type);
        Values got;
        if (!run(*gpu, c, type, got)) continue;
        compare(c.name + " " + std::string(name_of(type)), got,
                run_case(*reference, c, DType::fp64),
                [&](const std::string& tensor) { return bound_of(c, tensor, type); });
    }
}

// The emulator can run blocks and threads in the opposite order; a GPU runs them as it likes.
TEST_CASE("the same bits in whatever order blocks and threads run", "[ops]") {
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
        if (op_case.name.find("_backward") == std::string::npos) continue;
        INFO(op_case.name << " " << name_of(type));
        const OpCase c = prepared(*reference, op_case, type);
        Values first;
        if (!run(*gpu, c, type, first)) continue;
        reverse(!reversed);
        const Values second = run_case(*gpu, c, type);
        reverse(reversed);
        CHECK(second == first);
    }
}
