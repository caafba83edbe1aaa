// SPDX-License-Identifier: Apache-2.0
// The frequencies of transformers 5.24 for a base of 10000 and 16 rotated elements.
#include "spec/rotary.hpp"

#include <cmath>

#include "base/error.hpp"
#include "spec/model.hpp"
#include "support/catch.hpp"

using namespace lm;
using spec::RotaryRule;
using spec::RotaryScaling;

namespace {

void check_frequencies(const RotaryScaling& scaling, const std::vector<double>& expected,
                       i64 length = 8) {
    const std::vector<double> got = spec::frequencies({10000.0, scaling}, 16, length);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(i);
        CHECK(got[i] == Approx(expected[i]).epsilon(1e-6));
    }
}

RotaryScaling scaling_of(RotaryRule rule, double factor, i64 original) {
    RotaryScaling scaling = spec::usual_scaling(rule);
    scaling.factor = factor;
    scaling.original_length = original;
    return scaling;
}

// The frequencies of most rules from the fourth pair on.
std::vector<double> with_slow(std::vector<double> fast) {
    for (const double slow : {0.007905695, 0.0025, 0.0007905695, 0.00025, 7.905695e-05})
        fast.push_back(slow);
    return fast;
}

}  // namespace

TEST_CASE("rotary frequencies of each rule") {
    check_frequencies({}, {1, 0.3162278, 0.1, 0.03162278, 0.01, 0.003162278, 0.001, 0.0003162278});
    check_frequencies(scaling_of(RotaryRule::linear, 4, 0), with_slow({0.25, 0.07905694, 0.025}));
    check_frequencies(scaling_of(RotaryRule::llama3, 4, 32), with_slow({1, 0.127324, 0.025}));
    RotaryScaling yarn = scaling_of(RotaryRule::yarn, 4, 64);
    check_frequencies(yarn, with_slow({1, 0.2371708, 0.05}));
    CHECK(spec::attention_factor(yarn) == Approx(1.138629436).epsilon(1e-9));
    yarn.truncate = false;
    yarn.mscale_all_dim = 0.5;
    check_frequencies(yarn, with_slow({1, 0.1985835, 0.02559525}));
    CHECK(spec::attention_factor(yarn) == Approx(1.064821625).epsilon(1e-9));
    yarn.attention_factor = 1.5;
    CHECK(spec::attention_factor(yarn) == 1.5);
    check_frequencies(scaling_of(RotaryRule::yarn, 4, 4096),
                      {1, 0.3162278, 0.1, 0.02569351, 0.00625, 0.001383497, 0.00025, 7.905695e-05});
    CHECK(spec::attention_factor(scaling_of(RotaryRule::yarn, 1, 4096)) == 1);
    CHECK(spec::attention_factor(scaling_of(RotaryRule::llama3, 4, 32)) == 1);
}

TEST_CASE("longrope has other frequencies beyond the original context") {
    RotaryScaling scaling = scaling_of(RotaryRule::longrope, 4, 32);
    scaling.short_factors.assign(8, 2);
    scaling.long_factors = {1, 2, 4, 8, 16, 32, 64, 128};
    const spec::RotaryFrequencies rotary{10000.0, scaling};
    CHECK(spec::depends_on_length(rotary));
    CHECK(spec::frequencies(rotary, 16, 32)[7] == Approx(1.581139e-4).epsilon(1e-6));
    CHECK(spec::frequencies(rotary, 16, 33)[0] == 1);
    CHECK(spec::frequencies(rotary, 16, 33)[7] == Approx(2.470529e-6).epsilon(1e-6));
    // The same in both.
    CHECK(spec::attention_factor(scaling) ==
          Approx(std::sqrt(1 + std::log(4) / std::log(32))).epsilon(1e-12));
}

TEST_CASE("a query is scaled by the number of original contexts before it") {
    spec::RotaryFrequencies rotary{10000.0, scaling_of(RotaryRule::yarn, 4, 8)};
    CHECK(spec::query_scale(rotary, 100) == 1);
    rotary.query_beta = 0.1;
    CHECK(spec::query_scale(rotary, 7) == 1);
    CHECK(spec::query_scale(rotary, 8) == Approx(1 + 0.1 * std::log(2)).epsilon(1e-12));
    CHECK(spec::query_scale(rotary, 31) == Approx(1 + 0.1 * std::log(4)).epsilon(1e-12));
}

TEST_CASE("layers with a window may have a base of their own, and are then not scaled") {
    spec::ModelConfig model{.n_layers = 4, .position = spec::PositionEmbedding::rope};
    model.rope_scaling = scaling_of(RotaryRule::linear, 8, 0);
    model.window = 4;
    model.full_layers.every = 4;
    model.rotary_base = 1e6;
    CHECK(spec::rotary_frequencies(model).size() == 1);
    model.rotary_local_base = 1e4;
    CHECK(spec::rotary_frequencies(model).size() == 2);
    CHECK(model.layer(2).rotary == spec::RotaryFrequencies{1e4});
    CHECK(model.layer(3).rotary == spec::RotaryFrequencies{1e6, model.rope_scaling});
}

TEST_CASE("invalid scalings name their flag") {
    const auto refused = [](const RotaryScaling& scaling, const char* flag) {
        CHECK_THROWS_WITH(spec::check(scaling), StartsWith(flag));
    };
    refused(scaling_of(RotaryRule::linear, 0, 0), "--rotary-seq-len-interpolation-factor");
    refused(scaling_of(RotaryRule::llama3, 0.5, 8192), "--rope-scaling-factor");
    refused(scaling_of(RotaryRule::llama3, 8, 0), "--rope-scaling-original");
    RotaryScaling llama3 = spec::usual_scaling(RotaryRule::llama3);
    llama3.low_freq_factor = 4;
    refused(llama3, "--rope-scaling-high-freq-factor");
    refused(scaling_of(RotaryRule::yarn, 0.5, 8192), "--rotary-scaling-factor");
    refused(scaling_of(RotaryRule::yarn, 4, 0), "--yarn-original");
    RotaryScaling yarn = spec::usual_scaling(RotaryRule::yarn);
    yarn.beta_fast = 0;
    refused(yarn, "--yarn-beta-fast");
    RotaryScaling longrope = spec::usual_scaling(RotaryRule::longrope);
    longrope.long_factors = {1, 0};
    refused(longrope, "--rope-long-factor");
}
