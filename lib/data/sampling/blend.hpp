// SPDX-License-Identifier: Apache-2.0
// Which dataset of a weighted blend a sample comes from, and which sample of that dataset it is.
// Both rules work in blocks of 4096 samples: the counts before a block are all the state, so any
// block can be listed without what came before being kept.
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"

namespace lm::data {

constexpr i64 blend_block = 4096;

struct BlendEntry {
    i32 dataset = 0;
    i64 sample = 0;  // of that dataset
};

class BlendRule {
  public:
    virtual ~BlendRule() = default;
    BlendRule() = default;
    BlendRule(const BlendRule&) = delete;
    BlendRule& operator=(const BlendRule&) = delete;

    virtual size_t n_datasets() const = 0;
    // `counts` are the samples of each dataset before block `block`; adds those of the first
    // `n_samples` (at most 4096) of the block and lists them in `entries` unless that is empty.
    virtual void advance(i64 block, i64 n_samples, std::span<i64> counts,
                         std::span<BlendEntry> entries) const = 0;
};

// The stateless rule: at every block's end each dataset has its share of all samples, rounded up or
// down; a dataset whose next sample is due first gets it (Tijdeman, "The chairman assignment
// problem", 1980: such counts always exist). Inside a block the order is a keyed permutation.
class ProportionalBlend final : public BlendRule {
  public:
    // Weights need not add up to 1; each must be positive.
    ProportionalBlend(std::span<const double> weights, u64 key);
    size_t n_datasets() const override { return shares_.size(); }
    void advance(i64 block, i64 n_samples, std::span<i64> counts,
                 std::span<BlendEntry> entries) const override;

  private:
    void count_block(i64 block, std::span<i64> counts) const;

    std::vector<i64> shares_;  // of total_: exact arithmetic
    i64 total_ = 0;
    u64 key_;
};

// Megatron's rule (helpers.cpp, build_blending_indices): each sample comes from the dataset that
// lags most behind its weight, the first one of equals. Bit-identical, in double precision.
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

// w / sum(w) as numpy computes it (pairwise summation), bit by bit.
std::vector<double> normalized_like_numpy(std::span<const double> weights);

}  // namespace lm::data
