// SPDX-License-Identifier: Apache-2.0
// The stateless order (--data-order stateless) of one dataset. A window has seq_length + 1 tokens.
// Window k of an epoch begins at token k * seq_length + f of the range. Adjacent windows share one
// token, so every token in the windows, except the first, is a target exactly once in an epoch. The
// offset f is chosen anew in each epoch. It is between 0 and the number of tokens that remain after
// the last whole window, so that every token of the range, except the first, is a target in some
// epoch. A keyed permutation gives the order of the windows. There is no index.
#pragma once

#include "data/sampling/sample_source.hpp"

namespace lm::data {

class WindowSource final : public SampleSource {
  public:
    // `key` is derived from seed, part and dataset. Throws Error(usage) naming --seq-length when
    // the range has fewer than seq_length + 1 tokens. `what` describes the range in this error:
    // "the train split of P".
    WindowSource(TokenRange range, i64 seq_length, u64 key, const std::string& what);

    i64 size() const override { return endless; }
    void fill(i64 sample, std::span<i32> tokens) const override;
    std::vector<TokenSpan> spans(i64 sample) const override;
    std::vector<DatasetUse> use(i64 n_samples) const override;

    i64 epoch_samples() const { return n_windows_; }

  private:
    i64 position(i64 sample) const;  // position of the sample's first token in the flat stream

    TokenRange range_;
    u64 key_;
    i64 first_token_, n_tokens_, n_windows_;
};

}  // namespace lm::data
