// SPDX-License-Identifier: Apache-2.0
// The speed of the largest product of a model.

#include "train/start/product_speed.hpp"
#include "cpu/cpu_device.hpp"
#include "support/catch.hpp"
#include "support/odd_models.hpp"

using namespace lm;

TEST_CASE(
    "the largest product of a model has a speed, in each precision, and its memory is freed") {
    const auto device = cpu::make_device(1);
    for (const DType type : {DType::fp32, DType::bf16, DType::fp16}) {
        const train::TrainerConfig config{
            .model = test::odd_model(9), .micro_batch = 1, .precision = {.weights = type}};
        CHECK(train::product_tflops(*device, config) > 0);
        CHECK(device->allocated_bytes() == 0);
    }
}
