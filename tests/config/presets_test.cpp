// SPDX-License-Identifier: Apache-2.0
#include "config/presets.hpp"

#include "base/error.hpp"
#include "config/model_flags.hpp"
#include "spec/tensor_table.hpp"
#include "support/catch.hpp"

using namespace lm;

namespace {

i64 parameters_of(std::string_view name) {
    config::ModelFlags flags;
    flags.preset = name;
    return count_parameters(config::resolve_model(flags)).total();
}

}  // namespace

TEST_CASE("presets have the published parameter counts") {
    CHECK(parameters_of("gpt2-124m") == 124'439'808);
    CHECK(parameters_of("gpt2-355m") == 354'823'168);
    CHECK(parameters_of("gpt2-774m") == 774'030'080);
    CHECK(parameters_of("gpt2-1558m") == 1'557'611'200);
    CHECK(parameters_of("gpt3-13b") == 12'853'386'240);
    CHECK(parameters_of("104b") == 103'958'492'400 + 2 * 11600);  // and the embedding norm
    CHECK(parameters_of("bloom-560m") == 559'214'592);
    CHECK(parameters_of("bloom-176b") == 176'247'271'424);
    CHECK(parameters_of("llama-1b") == 1'100'048'384);
    CHECK(parameters_of("llama-7b") == 6'738'415'616);
    CHECK(parameters_of("llama-70b") == 68'976'648'192);
}

// The models of arXiv 2104.04473, table 1, are named by their size in billions.
TEST_CASE("presets named by a size have that size") {
    for (const char* name :
         {"1.7b", "3.6b", "7.5b", "18.4b", "39.1b", "76.1b", "145.6b", "310.1b"}) {
        INFO(name);
        CHECK(static_cast<double>(parameters_of(name)) / 1e9 ==
              Approx(std::stod(name)).margin(0.06));
    }
}

TEST_CASE("the error of an unknown preset lists the known ones") {
    try {
        config::preset_named("gpt2-small");
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.code() == Exit::usage);
        CHECK(std::string(error.what()).find("gpt2-124m, gpt2-355m") != std::string::npos);
    }
}

TEST_CASE("a preset prints the flags of the same model") {
    CHECK(config::as_flags(config::preset_named("gpt2-124m").model) ==
          "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 "
          "--vocab-size 50257");
    CHECK(config::as_flags(config::preset_named("llama-70b").model) ==
          "--num-layers 80 --hidden-size 8192 --num-attention-heads 64 --ffn-hidden-size 28672 "
          "--group-query-attention --num-query-groups 8 --seq-length 4096 --vocab-size 32000 "
          "--position-embedding-type rope --normalization RMSNorm --swiglu "
          "--untie-embeddings-and-output-weights --disable-bias-linear --attention-dropout 0 "
          "--hidden-dropout 0");
}
