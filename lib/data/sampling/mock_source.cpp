// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/mock_source.hpp"

#include "base/rng.hpp"

namespace lm::data {

MockSource::MockSource(i64 seq_length, i64 vocab_size, u64 seed)
    : SampleSource(seq_length), vocab_size_(vocab_size), key_(stream_key(seed, "mock data")) {}

void MockSource::fill(i64 sample, std::span<i32> tokens) const {
    for (size_t i = 0; i < tokens.size(); ++i) {
        const u64 word = philox(key_, i, static_cast<u64>(sample))[0];
        tokens[i] = static_cast<i32>((word * static_cast<u64>(vocab_size_)) >> 32);
    }
}

std::vector<TokenSpan> MockSource::spans(i64) const {
    return {};
}

std::vector<DatasetUse> MockSource::use(i64) const {
    return {};
}

}  // namespace lm::data
