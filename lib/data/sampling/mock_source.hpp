// SPDX-License-Identifier: Apache-2.0
// --mock-data: uniformly random tokens, for measuring speed without a dataset. The tokens depend
// only on the seed and the sample number.
#pragma once

#include "data/sampling/sample_source.hpp"

namespace lm::data {

class MockSource final : public SampleSource {
  public:
    MockSource(i64 seq_length, i64 vocab_size, u64 seed);
    i64 size() const override { return endless; }
    void fill(i64 sample, std::span<i32> tokens) const override;
    std::vector<TokenSpan> spans(i64 sample) const override;
    std::vector<DatasetUse> use(i64 n_samples) const override;

  private:
    i64 vocab_size_;
    u64 key_;
};

}  // namespace lm::data
