// SPDX-License-Identifier: Apache-2.0
// A weighted blend of sources: sample -> block -> (dataset, its sample). Keeps the counts of every
// 256th block and the list of one block; everything else is worked out when asked for.
#pragma once

#include <mutex>

#include "data/sampling/blend.hpp"
#include "data/sampling/sample_source.hpp"

namespace lm::data {

class BlendSource final : public SampleSource {
  public:
    // All sources have the same seq_length. `size`: how many samples the blend has.
    BlendSource(std::vector<std::unique_ptr<SampleSource>> sources, std::unique_ptr<BlendRule> rule,
                i64 size);

    i64 size() const override { return size_; }
    void fill(i64 sample, std::span<i32> tokens) const override;
    std::vector<TokenSpan> spans(i64 sample) const override;
    std::vector<DatasetUse> use(i64 n_samples) const override;

    BlendEntry entry(i64 sample) const;
    // Samples of each dataset among the first n_samples.
    std::vector<i64> counts(i64 n_samples) const;

  private:
    std::vector<i64> counts_before_block(i64 block) const;  // with the mutex held

    std::vector<std::unique_ptr<SampleSource>> sources_;
    std::unique_ptr<BlendRule> rule_;
    i64 size_;

    mutable std::mutex mutex_;
    mutable std::vector<std::vector<i64>> checkpoints_;  // counts before block 256 * k
    mutable i64 counted_block_ = 0;                      // counted_ are the counts before it
    mutable std::vector<i64> counted_;
    mutable i64 listed_block_ = -1;
    mutable std::vector<BlendEntry> listed_;
};

}  // namespace lm::data
