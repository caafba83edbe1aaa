// SPDX-License-Identifier: Apache-2.0
#include "eval/sampler.hpp"

#include <cmath>
#include <limits>
#include <map>

#include "../support/temp_dir.hpp"
#include "support/catch.hpp"

using namespace lm;
using eval::Sampler;

namespace {

std::map<i32, int> counts(const eval::Sampling& sampling, const std::vector<float>& logits,
                          int n = 4000) {
    Sampler sampler(sampling, 0);
    std::map<i32, int> result;
    for (int i = 0; i < n; ++i) ++result[sampler.choose(logits, i)];
    return result;
}

const std::vector<float> logits{1.0F, 3.0F, 2.0F, 3.0F, -5.0F};

}  // namespace

TEST_CASE("greedy takes the first of the largest logits") {
    CHECK(counts({}, logits) == std::map<i32, int>{{1, 4000}});
}

TEST_CASE("top-k and top-p keep the most probable tokens") {
    CHECK(counts({.temperature = 1, .top_k = 1}, logits).size() == 1);
    const auto two = counts({.temperature = 1, .top_k = 2}, logits);
    CHECK(two.size() == 2);
    CHECK(two.contains(1));
    CHECK(two.contains(3));
    // Probabilities 0.399 0.399 0.147 0.054 0.0001.
    CHECK(counts({.temperature = 1, .top_p = 0.39}, logits).size() == 1);
    CHECK(counts({.temperature = 1, .top_p = 0.5}, logits).size() == 2);
    CHECK(counts({.temperature = 1, .top_p = 0.9}, logits).size() == 3);
    CHECK(counts({.temperature = 1, .top_p = 0.96}, logits).size() == 4);
    CHECK(counts({.temperature = 1, .top_k = 3, .top_p = 0.9}, logits).size() == 3);
}

TEST_CASE("samples follow the probabilities at the temperature") {
    const auto at = [](double temperature) {
        return counts({.temperature = temperature}, {0.0F, 1.0F}, 20000)[1] / 20000.0;
    };
    for (const double temperature : {0.5, 1.0, 2.0}) {
        CHECK(at(temperature) == Approx(1 / (1 + std::exp(-1 / temperature))).margin(0.02));
    }
}

TEST_CASE("random numbers depend on seed, sequence and index only") {
    const std::vector<float> flat(50, 0.0F);
    const auto draw = [&](u64 seed, u64 sequence) {
        Sampler sampler({.temperature = 1, .seed = seed}, sequence);
        std::vector<i32> ids;
        for (int i = 0; i < 20; ++i) ids.push_back(sampler.choose(flat, i));
        return ids;
    };
    CHECK(draw(1, 0) == draw(1, 0));
    CHECK(draw(1, 0) != draw(2, 0));
    CHECK(draw(1, 0) != draw(1, 1));
}

TEST_CASE("logits that are not finite are an error") {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        const auto error = test::caught([&] { counts({}, {0.0F, bad, 1.0F}); });
        CHECK(error.says("corrupt"));
    }
}
