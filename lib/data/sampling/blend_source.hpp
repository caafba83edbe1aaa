// SPDX-License-Identifier: Apache-2.0
// A weighted blend of sources. Maps a sample of the blend to a dataset and a sample of that dataset
// (blend.hpp). Stores the counts before every 256th block and the entries of the last block that
// was read, and computes all other blocks on demand.
#pragma once

#include <mutex>

#include "data/sampling/blend.hpp"
#include "data/sampling/sample_source.hpp"

namespace lm::data {

class BlendSource final : public SampleSource {
  public:
    // All sources must have the same seq_length. `size` is the number of samples of the blend.
    BlendSource(std::vector<std::unique_ptr<SampleSource>> sources, std::unique_ptr<BlendRule> rule,
                i64 size);

    i64 size() const override { return size_; }
    void fill(i64 sample, std::span<i32> tokens) const override;
    std::vector<TokenSpan> spans(i64 sample) const override;
    std::vector<DatasetUse> use(i64 n_samples) const override;

    BlendEntry entry(i64 sample) const;
    // Returns how many of the first n_samples samples come from each dataset, [sources].
    std::vector<i64> counts(i64 n_samples) const;

  private:
    std::vector<i64> counts_before_block(i64 block) const;  // mutex_ must be held

    std::vector<std::unique_ptr<SampleSource>> sources_;
    std::unique_ptr<BlendRule> rule_;
    i64 size_;

    mutable std::mutex mutex_;
    mutable std::vector<std::vector<i64>> checkpoints_;  // [k][sources] counts before block 256 k
    mutable i64 counted_block_ = 0;  // counted_ has the counts before this block
    mutable std::vector<i64> counted_;
    mutable i64 listed_block_ = -1;
    mutable std::vector<BlendEntry> listed_;
};

}  // namespace lm::data
