// SPDX-License-Identifier: Apache-2.0
// The two rules that assign each sample of a weighted blend to a dataset and to a sample of that
// dataset. Both work in blocks of 4096 samples. A block depends only on the counts of samples
// before the block, so any block can be computed from stored counts.
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"

namespace lm::data {

constexpr i64 blend_block = 4096;

struct BlendEntry {
    i32 dataset = 0;
    i64 sample = 0;  // number within that dataset
};

class BlendRule {
  public:
    virtual ~BlendRule() = default;
    BlendRule() = default;
    BlendRule(const BlendRule&) = delete;
    BlendRule& operator=(const BlendRule&) = delete;

    virtual size_t n_datasets() const = 0;
    // `counts`, [n_datasets], has the number of samples of each dataset before block `block`. Adds
    // to `counts` the first `n_samples` samples of the block, at most blend_block. Writes these
    // samples to `entries`, [n_samples], unless `entries` is empty.
    virtual void advance(i64 block, i64 n_samples, std::span<i64> counts,
                         std::span<BlendEntry> entries) const = 0;
};

// The stateless rule. At the end of every block each dataset has its share of all samples up to
// this point, rounded up or down. Rounding down leaves some samples of the block unassigned; each
// of them goes to the dataset whose next sample is due first (Tijdeman, "The chairman assignment
// problem", 1980, proves that such counts always exist). Within a block the order is a keyed
// permutation.
class ProportionalBlend final : public BlendRule {
  public:
    // The weights must be positive; their sum may be any number.
    ProportionalBlend(std::span<const double> weights, u64 key);
    size_t n_datasets() const override { return shares_.size(); }
    void advance(i64 block, i64 n_samples, std::span<i64> counts,
                 std::span<BlendEntry> entries) const override;

  private:
    void count_block(i64 block, std::span<i64> counts) const;

    std::vector<i64> shares_;  // weights as integers that sum to total_, so arithmetic is exact
    i64 total_ = 0;
    u64 key_;
};

// Megatron's rule (helpers.cpp, build_blending_indices), bit-identical in double precision. Each
// sample comes from the dataset with the largest deficit relative to its weight; among equal
// deficits, from the first dataset.
class GreedyBlend final : public BlendRule {
  public:
    explicit GreedyBlend(std::vector<double> normalized_weights)
        : weights_(std::move(normalized_weights)) {}
    size_t n_datasets() const override { return weights_.size(); }
    void advance(i64 block, i64 n_samples, std::span<i64> counts,
                 std::span<BlendEntry> entries) const override;

  private:
    std::vector<double> weights_;
};

// Returns the weights divided by their sum, with the same bits as numpy (pairwise summation).
std::vector<double> normalized_like_numpy(std::span<const double> weights);

}  // namespace lm::data
