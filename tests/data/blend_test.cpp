// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/blend.hpp"

#include <cmath>
#include <set>

#include "base/rng.hpp"
#include "data/sampling/blend_source.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::data;

namespace {

// Sample k of dataset d has the tokens d, k % 1000, k / 1000.
class Labelled final : public SampleSource {
  public:
    explicit Labelled(i32 label) : SampleSource(2), label_(label) {}
    i64 size() const override { return endless; }
    void fill(i64 sample, std::span<i32> tokens) const override {
        tokens[0] = label_;
        tokens[1] = static_cast<i32>(sample % 1000);
        tokens[2] = static_cast<i32>(sample / 1000);
    }
    std::vector<TokenSpan> spans(i64) const override { return {}; }
    std::vector<DatasetUse> use(i64 n) const override {
        DatasetUse use;
        use.samples = n;
        use.weight = 1;
        return {use};
    }

  private:
    i32 label_;
};

std::unique_ptr<BlendSource> blend(std::unique_ptr<BlendRule> rule, i64 size = endless) {
    std::vector<std::unique_ptr<SampleSource>> sources;
    for (size_t d = 0; d < rule->n_datasets(); ++d) {
        sources.push_back(std::make_unique<Labelled>(static_cast<i32>(d)));
    }
    return std::make_unique<BlendSource>(std::move(sources), std::move(rule), size);
}

std::vector<std::vector<double>> interesting_weights() {
    std::vector<std::vector<double>> all = {
        {1}, {0.5, 0.5}, {1, 1, 1}, {0.6, 0.3, 0.1}, {1, 1e-3}, {1, 1e-6, 1e-6, 1e-6}};
    all.emplace_back(500, 1.0);   // about 8 samples of each dataset in a block
    all.emplace_back(5000, 1.0);  // more datasets than samples in a block
    auto& heavy = all.emplace_back();
    for (int d = 0; d < 40; ++d) heavy.push_back(std::pow(0.8, d));
    auto& random = all.emplace_back();
    for (u64 d = 0; d < 300; ++d) random.push_back(std::exp(4 * normal(9, d)));
    return all;
}

std::vector<int> greedy(const std::vector<double>& weights, i64 n) {
    const auto source = blend(std::make_unique<GreedyBlend>(normalized_like_numpy(weights)));
    std::vector<int> datasets;
    for (i64 k = 0; k < n; ++k) datasets.push_back(source->entry(k).dataset);
    return datasets;
}

}  // namespace

TEST_CASE("at every block's end each dataset is within one sample of its weight") {
    for (const auto& weights : interesting_weights()) {
        const ProportionalBlend rule(weights, 1);
        double sum = 0;
        for (const double w : weights) sum += w;
        std::vector<i64> counts(weights.size());
        for (i64 block = 0; block < 300; ++block) {
            const std::vector<i64> before = counts;
            rule.advance(block, blend_block, counts, {});
            i64 total = 0;
            double worst = 0;
            bool falls = false;
            for (size_t d = 0; d < counts.size(); ++d) {
                total += counts[d];
                falls = falls || counts[d] < before[d];
                worst =
                    std::max(worst, std::abs(static_cast<double>(counts[d]) -
                                             weights[d] / sum * double(blend_block * (block + 1))));
            }
            REQUIRE(total == blend_block * (block + 1));
            REQUIRE_FALSE(falls);
            REQUIRE(worst < 1.001);
        }
    }
}

TEST_CASE("a blend gives each sample of each dataset once, in a keyed order") {
    const std::vector<double> weights = {0.6, 0.3, 0.1};
    const auto a = blend(std::make_unique<ProportionalBlend>(weights, 1));
    const auto b = blend(std::make_unique<ProportionalBlend>(weights, 2));
    std::vector<std::set<i64>> seen(3);
    int same = 0;
    constexpr i64 n = 3 * blend_block;
    for (i64 k = 0; k < n; ++k) {
        const BlendEntry at = a->entry(k);
        REQUIRE(seen[static_cast<size_t>(at.dataset)].insert(at.sample).second);
        same += at.dataset == b->entry(k).dataset;
    }
    const auto counts = a->counts(n);
    for (size_t d = 0; d < 3; ++d) {
        CHECK(static_cast<i64>(seen[d].size()) == counts[d]);
        CHECK(*seen[d].rbegin() == counts[d] - 1);
    }
    CHECK(same < n / 2 + n / 10);  // two orders agree by chance in .36 + .09 + .01 of the samples
}

TEST_CASE("samples of a blend can be read in any order") {
    for (const bool proportional : {true, false}) {
        const std::vector<double> weights = {0.5, 0.25, 0.2, 0.05};
        const auto make = [&]() -> std::unique_ptr<BlendRule> {
            if (proportional) return std::make_unique<ProportionalBlend>(weights, 7);
            return std::make_unique<GreedyBlend>(normalized_like_numpy(weights));
        };
        const auto forward = blend(make());
        const auto jumping = blend(make());
        constexpr i64 n = 600 * blend_block;
        std::vector<i64> taken(4);
        std::vector<BlendEntry> kept;
        for (i64 k = 0; k < n; ++k) {
            const BlendEntry at = forward->entry(k);
            if (k % 100'003 == 0) {
                kept.push_back(at);
                REQUIRE(forward->counts(k) == taken);
            }
            ++taken[static_cast<size_t>(at.dataset)];
        }
        for (size_t j = kept.size(); j-- > 0;) {
            const BlendEntry at = jumping->entry(static_cast<i64>(j) * 100'003);
            REQUIRE(at.dataset == kept[j].dataset);
            REQUIRE(at.sample == kept[j].sample);
        }
        CHECK(jumping->counts(n) == taken);
    }
}

TEST_CASE("a blend reads and reports its datasets") {
    const std::vector<double> weights = {3, 1};
    const auto source = blend(std::make_unique<ProportionalBlend>(weights, 1));
    std::vector<i32> tokens(3);
    for (i64 k = 0; k < 5000; ++k) {
        const BlendEntry at = source->entry(k);
        source->fill(k, tokens);
        REQUIRE(tokens == std::vector<i32>{at.dataset, static_cast<i32>(at.sample % 1000),
                                           static_cast<i32>(at.sample / 1000)});
    }
    const auto use = source->use(8192);
    REQUIRE(use.size() == 2);
    CHECK(use[0].samples == 6144);
    CHECK(use[0].weight == 0.75);
    CHECK(use[1].weight == 0.25);
}

// Golden values of Megatron's build_blending_indices.
TEST_CASE("the greedy blend equals Megatron's") {
    CHECK(greedy({.6, .3, .1}, 20) ==
          std::vector<int>{0, 1, 0, 2, 0, 1, 0, 0, 1, 0, 0, 1, 0, 2, 0, 1, 0, 0, 1, 0});
    CHECK(greedy({.3, .7}, 10) == std::vector<int>{1, 0, 1, 1, 0, 1, 1, 0, 1, 1});
    CHECK(greedy({.5, .25, .25}, 12) == std::vector<int>{0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0});
    CHECK(greedy({1, 1}, 6) == std::vector<int>{0, 1, 0, 1, 0, 1});
}

TEST_CASE("weights are normalized with numpy's pairwise sum") {
    // numpy 1.24: w = 0.1 * arange(1, n + 1); (w / w.sum())[0].hex()
    const auto first = [](int n) {
        std::vector<double> w;
        for (int k = 1; k <= n; ++k) w.push_back(0.1 * k);
        return normalized_like_numpy(w)[0];
    };
    CHECK(first(5) == 0x1.1111111111111p-4);
    CHECK(first(20) == 0x1.3813813813814p-8);
    CHECK(first(127) == 0x1.0204081020408p-13);
    CHECK(first(300) == 0x1.7396a101480b0p-16);
    CHECK(first(1000) == 0x1.0c2ad36ed7f9ap-19);
}
