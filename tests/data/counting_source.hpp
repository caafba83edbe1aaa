// SPDX-License-Identifier: Apache-2.0
// A source whose tokens state their sample and position.
#pragma once

#include <atomic>

#include "base/error.hpp"
#include "data/sampling/sample_source.hpp"

namespace lm::data {

// Sample k has the tokens k*100, k*100 + 1, ...
class Counting final : public SampleSource {
  public:
    Counting(i64 seq_length, i64 size) : SampleSource(seq_length), size_(size) {}
    i64 size() const override { return size_; }
    void fill(i64 sample, std::span<i32> tokens) const override {
        ++n_filled;
        if (sample == broken) throw Error(Exit::failure, "broken sample");
        for (size_t t = 0; t < tokens.size(); ++t) {
            tokens[t] = static_cast<i32>(sample * 100 + static_cast<i64>(t));
        }
    }
    std::vector<TokenSpan> spans(i64) const override { return {}; }
    std::vector<DatasetUse> use(i64) const override { return {}; }
    i64 broken = -1;
    mutable std::atomic<i64> n_filled = 0;

  private:
    i64 size_;
};

}  // namespace lm::data
