// SPDX-License-Identifier: Apache-2.0
#include "train/step/gemm_tuning.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "cpu/cpu_device.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::train;

TEST_CASE("the first stored choice of a product is kept") {
    const test::TempDir directory;
    const std::string path = directory.path() + "/a/choices";
    ChoicesInDirectory first(path);
    ChoicesInDirectory second(path);
    CHECK(first.find("a product").empty());
    CHECK(second.find("a product").empty());
    CHECK(first.store("a product", "this way") == "this way");
    CHECK(second.store("a product", "that way") == "this way");
    CHECK(second.find("a product") == "this way");
    CHECK(second.find("another product").empty());
    CHECK(first.n_kept() == 1);
    CHECK(second.n_kept() == 0);
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
        std::ofstream(entry.path()) << "something else\n";
    }
    CHECK_THROWS_WITH(first.find("a product"), ContainsSubstring("\"a product\""));
}

TEST_CASE("a choice by measurement takes medians, and a gain that is more than noise") {
    using device::fastest_algorithm;
    CHECK(fastest_algorithm({{1}}, 0.02F) == 0);
    CHECK(fastest_algorithm({{100, 100, 100}, {99, 99, 99}}, 0.02F) == 0);
    CHECK(fastest_algorithm({{100, 100, 100}, {99, 99, 99}, {97, 97, 97}}, 0.02F) == 2);
    CHECK(fastest_algorithm({{100, 100, 500}, {90, 300, 300}}, 0.02F) == 0);  // quick once
    CHECK(fastest_algorithm({{100, 100, 500}, {90, 90, 900}}, 0.02F) == 1);   // slow once
}

TEST_CASE("the linear layers of a model are tuned") {
    TrainerConfig config;
    config.model = {.n_layers = 2,
                    .hidden = 24,
                    .n_heads = 4,
                    .seq_length = 8,
                    .vocab_size = 50,
                    .activation = spec::Activation::gelu_tanh};
    config.model.resolve();
    config.micro_batch = 2;
    const auto shapes = linear_shapes(config, 0);
    REQUIRE(shapes.size() == 5);  // query-key-value, output, up, down, head
    CHECK(shapes[0].outputs == 72);
    CHECK(shapes[2].activation == device::Activation::gelu_tanh);
    CHECK(shapes[3].input_activation == device::Activation::gelu_tanh);
    CHECK(shapes[4].rows == 16);
    CHECK(shapes[0].accumulated);
    config.n_micro_batches = 1;
    CHECK_FALSE(linear_shapes(config, 0)[0].accumulated);
    config.parallel.tp = 2;
    CHECK(linear_shapes(config, 0)[1].bias);
    CHECK_FALSE(linear_shapes(config, 1)[1].bias);
    CHECK(linear_shapes(config, 1)[1].inputs == 12);
    // The norm's backward computes the bias gradients of the row-parallel layers.
    CHECK(shapes[0].bias_gradient);
    CHECK(shapes[2].bias_gradient);
    CHECK_FALSE(shapes[1].bias_gradient);
    CHECK_FALSE(shapes[3].bias_gradient);
    config.parallel.sequence_parallel = true;
    CHECK(linear_shapes(config, 0)[1].bias_gradient);
    CHECK(linear_shapes(config, 0)[3].bias_gradient);
    config.parallel = {};
    const auto device = cpu::make_device(1);
    tune_linear_layers(*device, config, shapes);
    CHECK(device->allocated_bytes() == 0);
}
