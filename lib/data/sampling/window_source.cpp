// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/window_source.hpp"

#include "base/error.hpp"
#include "base/rng.hpp"
#include "data/sampling/permutation.hpp"

namespace lm::data {

WindowSource::WindowSource(TokenRange range, i64 seq_length, u64 key, const std::string& what)
    : SampleSource(seq_length),
      range_(std::move(range)),
      key_(key),
      first_token_(range_.first_token()),
      n_tokens_(range_.n_tokens()),
      n_windows_((n_tokens_ - 1) / seq_length) {
    check_tokens(n_tokens_, seq_length, what);
}

i64 WindowSource::position(i64 sample) const {
    LM_CHECK(sample >= 0, "expected a sample of at least 0, got {}", sample);
    const i64 epoch = sample / n_windows_;
    const u64 epoch_key = mix(key_, static_cast<u64>(epoch));
    const i64 remainder = n_tokens_ - 1 - n_windows_ * seq_length();
    const i64 shift =
        static_cast<i64>(scale_to(stream_key(epoch_key, "shift"), static_cast<u64>(remainder) + 1));
    const i64 window = Permutation(n_windows_, epoch_key)(sample % n_windows_);
    return first_token_ + shift + window * seq_length();
}

void WindowSource::fill(i64 sample, std::span<i32> tokens) const {
    LM_CHECK(static_cast<i64>(tokens.size()) == seq_length() + 1, "expected {} tokens, got {}",
             seq_length() + 1, tokens.size());
    read_checked(*range_.dataset, range_.vocab_size, position(sample), tokens);
}

std::vector<TokenSpan> WindowSource::spans(i64 sample) const {
    std::vector<TokenSpan> out;
    append_spans(*range_.dataset, position(sample), seq_length() + 1, out);
    return out;
}

std::vector<DatasetUse> WindowSource::use(i64 n_samples) const {
    return {dataset_use(range_, n_tokens_, seq_length(), n_samples)};
}

}  // namespace lm::data
