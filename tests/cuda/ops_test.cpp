// SPDX-License-Identifier: Apache-2.0
// The list of operation cases on a GPU, or on the emulated one.
#include <catch2/catch.hpp>

#include "base/error.hpp"
#include "cpu/cpu.hpp"
#include "device/compare.hpp"
#include "device/op_case.hpp"
#include "train/device.hpp"

using namespace lm;
using namespace lm::test;

TEST_CASE("operations agree with the reference in double precision", "[ops]") {
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto gpu = train::cuda_plugin().open_device(0);
    for (const OpCase& op_case : op_cases()) {
        const OpCase c = prepared(*reference, op_case, type);
        Values got;
        try {
            got = run_case(*gpu, c, type);
        } catch (const Error& error) {
            const std::string why = error.what();
            if (why.find("not written yet") == std::string::npos) throw;
            continue;
        }
        compare(c.name + " " + std::string(name_of(type)), got,
                run_case(*reference, c, DType::fp64),
                [&](const std::string& tensor) { return bound_of(c, tensor, type); });
    }
}
