// SPDX-License-Identifier: Apache-2.0
// The stateless order (--data-order stateless) over one dataset. Window k of an epoch is tokens
// k*seq + f to (k+1)*seq + f inclusive of the range's token stream, so that neighbours share one
// token and every token but the first is once a target; f, keyed by the epoch, moves over the
// remainder that does not fill a window, so that no target is lost for good. The windows of an
// epoch come in the order of a keyed permutation. No index in memory, nothing to build.
#pragma once

#include "data/sampling/sample_source.hpp"

namespace lm::data {

class WindowSource final : public SampleSource {
  public:
    // `key` separates seeds, parts and datasets. Throws Error(usage) naming --seq-length when the
    // range has fewer than seq_length + 1 tokens; `what` describes it: "the train split of P".
    WindowSource(TokenRange range, i64 seq_length, u64 key, const std::string& what);

    i64 size() const override { return endless; }
    void fill(i64 sample, std::span<i32> tokens) const override;
    std::vector<TokenSpan> spans(i64 sample) const override;
    std::vector<DatasetUse> use(i64 n_samples) const override;

    i64 epoch_samples() const { return n_windows_; }

  private:
    i64 position(i64 sample) const;  // of its first token in the flat stream

    TokenRange range_;
    u64 key_;
    i64 first_token_, n_tokens_, n_windows_;
};

}  // namespace lm::data
