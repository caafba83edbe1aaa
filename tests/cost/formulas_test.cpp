// SPDX-License-Identifier: Apache-2.0
// Figures of published trainings.
#include "cost/formulas.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;
using namespace lm::cost;

namespace {

ModelConfig gpt(i64 hidden, i64 n_layers, i64 n_heads, i64 vocab, i64 seq) {
    ModelConfig config;
    config.hidden = hidden;
    config.n_layers = n_layers;
    config.n_heads = n_heads;
    config.vocab_size = vocab;
    config.seq_length = seq;
    config.resolve();
    return config;
}

ModelConfig bloom(i64 vocab) {
    ModelConfig config = gpt(14336, 70, 112, vocab, 2048);
    config.position = PositionEmbedding::alibi;
    config.embedding_norm = true;
    return config;
}

i64 rounded(double x) {
    return static_cast<i64>(std::llround(x));
}

}  // namespace

TEST_CASE("parameters of BigScience's models") {
    const auto exact_and_formula = [](const ModelConfig& config, i64 expected) {
        CHECK(count_parameters(config).total() == expected);
        CHECK(rounded(bigscience_parameters(config)) == expected);
    };
    exact_and_formula(gpt(5120, 40, 32, 50257, 2048), 12'853'386'240);
    exact_and_formula(gpt(16384, 32, 32, 50257, 2048), 103'943'028'736);
    exact_and_formula(gpt(11600, 64, 80, 50257, 2048), 103'958'492'400);
    exact_and_formula(gpt(4096, 36, 32, 50257, 512), 7'457'632'256);
    CHECK(count_parameters(gpt(1024, 24, 16, 50257, 1024)).total() >> 20 == 338);
    exact_and_formula(bloom(250000), 176'234'655'744);
    exact_and_formula(bloom(250680), 176'244'404'224);
    exact_and_formula(bloom(250880), 176'247'271'424);
    CHECK(count_parameters(bloom(250880)).embedding == 3'596'615'680 + 2 * 14336);
}

TEST_CASE("table 1 of the Megatron paper: formula with V = 51200, exact count with 50257") {
    struct Row {
        i64 heads, hidden, layers, formula, exact;
        double billions;
        i64 head_size;
    };
    const Row rows[] = {
        {24, 2304, 24, 1'652'226'048, 1'650'057'984, 1.65, 96},
        {32, 3072, 30, 3'562'162'176, 3'559'271'424, 3.56, 96},
        {32, 4096, 36, 7'467'778'048, 7'463'923'712, 7.47, 128},
        {48, 6144, 40, 18'449'743'872, 18'443'962'368, 18.45, 128},
        {64, 8192, 48, 39'096'025'088, 39'088'316'416, 39.10, 128},
        {80, 10240, 60, 76'050'718'720, 76'041'082'880, 76.05, 128},
        {96, 12288, 80, 145'622'237'184, 145'610'674'176, 145.62, 128},
        {128, 16384, 96, 310'130'507'776, 310'115'090'432, 310.13, 128},
    };
    for (const Row& row : rows) {
        const ModelConfig config = gpt(row.hidden, row.layers, row.heads, 50257, 2048);
        ParallelConfig tp8;
        tp8.tp = 8;
        CHECK(padded_vocab(config, tp8) == 51200);
        CHECK(std::abs(megatron_parameters(config, 51200) - static_cast<double>(row.formula)) < 1);
        CHECK(megatron_parameters(config, 51200) / 1e9 == Approx(row.billions).margin(0.005));
        CHECK(config.head_dim == row.head_size);
        CHECK(count_parameters(config).total() == row.exact);
    }
}

TEST_CASE("a tensor rank of the AWS example has the parameters that Megatron printed") {
    const ModelConfig config = gpt(4096, 36, 32, 50257, 2048);
    ParallelConfig parallel;
    parallel.tp = 8;
    for (i64 rank = 0; rank < 8; ++rank) {
        CHECK(rank_parameters(config, parallel, rank, 0) == 941'594'624);
    }
}

TEST_CASE("checkpoints have 14 bytes per parameter in 16 bits, 12 in fp32") {
    const CheckpointSize bf16 = checkpoint_size(bloom(250880), {DType::bf16});
    CHECK(bf16.weights == 2 * 176'247'271'424);
    CHECK(bf16.total() == 14 * 176'247'271'424);
    CHECK(checkpoint_size(bloom(250880), {DType::fp32}).total() == 12 * 176'247'271'424);
}

TEST_CASE("operations of an iteration give the TFLOP/s of the logs") {
    const double flops = iteration_flops(bloom(250880), 250880, 2048, 2048, true);
    CHECK(flops == Approx(6.021190e18).epsilon(1e-6));
    CHECK(flops / (105.22 * 384 * 1e12) == Approx(149.02).margin(0.005));
    CHECK(flops / (215.82 * 192 * 1e12) == Approx(145.31).margin(0.005));
    CHECK(iteration_flops(bloom(250880), 250880, 16, 2048, true) / (15.23 * 384e12) ==
          Approx(8.04).margin(0.005));
    const ModelConfig gpt13b = gpt(5120, 40, 32, 50257, 2048);
    CHECK(iteration_flops(gpt13b, 50432, 1024, 2048, true) / (13.248 * 512e12) ==
          Approx(33.68).margin(0.005));
}

TEST_CASE("operations of a token, by hand") {
    // GPT-2 small: 12 layers of 12 h^2 weights, attention over half of 1024 keys, the tied head.
    const double gpt2 = 6.0 * (12 * (12.0 * 768 * 768 + 768.0 * 1024) + 50257.0 * 768);
    CHECK(model_flops_per_token(gpt(768, 12, 12, 50257, 1024), 1024) == gpt2);
    // Llama with 8 of 32 key-value groups, a gated MLP and an untied head.
    ModelConfig llama{.n_layers = 3,
                      .hidden = 2048,
                      .ffn_hidden = 5632,
                      .n_heads = 32,
                      .n_groups = 8,
                      .seq_length = 4096,
                      .vocab_size = 32000,
                      .activation = Activation::swiglu,
                      .untied_head = true};
    llama.resolve();
    const double attention = 2048 * (2048 + 2 * 512) + 2048 * 2048 + 2048 * 4096.0;
    CHECK(model_flops_per_token(llama, 4096) ==
          6 * (3 * (attention + 3 * 2048 * 5632.0) + 32000 * 2048.0));
    // Each query except the first 1024 sees 1024 keys. The mean number of keys is 1024 x (1 - 1/8)
    // instead of 2048.
    llama.window = 1024;
    const double fewer = 6 * 3 * 2048 * 2 * (2048 - 896.0);
    CHECK(6 * (3 * (attention + 3 * 2048 * 5632.0) + 32000 * 2048.0) -
              model_flops_per_token(llama, 4096) ==
          Approx(fewer));
}

TEST_CASE("a window reduces the operations of attention") {
    ModelConfig model = gpt(64, 4, 2, 128, 256);
    const auto flops = [&](i64 window) {
        model.window = window;
        return iteration_flops(model, 128, 1, 256, false);
    };
    const double full = flops(0);
    CHECK(flops(256) == full);
    CHECK(flops(1000) == full);
    // With a window of 64 of 256 keys, 64 * (2 - 1/4) = 112 keys count: 144 keys less. Each
    // key takes 4 h operations in each of 3 passes.
    CHECK(full - flops(64) == Approx(3.0 * 4 * 4 * 256 * 64 * 144));
}

TEST_CASE("days of a training with eight operations per parameter and token") {
    const auto days = [](double tokens, double parameters, double gpus, double tflops) {
        return training_seconds(parameters, tokens, gpus, tflops, true) / 86400;
    };
    CHECK(days(300e9, 13e9, 256, 45) == Approx(31.35).margin(0.005));
    CHECK(days(450e9, 167e9, 384, 150) == Approx(120.80).margin(0.005));
    CHECK(days(300e9, 175e9, 1024, 140) == Approx(33.9).margin(0.05));
    CHECK(days(450e9, 1e12, 3072, 163) == Approx(83.2).margin(0.05));
}
