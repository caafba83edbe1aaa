// SPDX-License-Identifier: Apache-2.0
#include "cost/peak_flops.hpp"

#include "support/catch.hpp"

using namespace lm;

TEST_CASE("peaks match whole words of the device's name", "[peaks]") {
    const auto bf16 = [](std::string_view name) { return cost::peak_flops(name, DType::bf16); };
    CHECK(bf16("NVIDIA H100 80GB HBM3") == 989e12);
    CHECK(bf16("cuda:0 (NVIDIA H100 80GB HBM3)") == 989e12);
    CHECK(bf16("NVIDIA H100 PCIe") == 756e12);
    CHECK(bf16("NVIDIA H200") == 989e12);
    CHECK(bf16("NVIDIA A100-SXM4-80GB") == 312e12);
    CHECK(bf16("NVIDIA GH200 480GB") == 989e12);
    CHECK(bf16("NVIDIA L4") == 121e12);
    CHECK(!bf16("NVIDIA L40"));
    CHECK(!bf16("emulated GPU"));
    CHECK(!bf16("cuda:0 (NVIDIA H100 80GB HBM3 MIG 3g.40gb)"));
    CHECK(cost::is_slice("NVIDIA A100-SXM4-80GB MIG 1g.10gb"));
    CHECK(!cost::is_slice("NVIDIA H100 80GB HBM3"));
    CHECK(cost::peak_flops("NVIDIA H200", DType::fp32) == 67e12);
}
