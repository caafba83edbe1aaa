// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/megatron_source.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace lm::data {
namespace {

u32 checked_seed(u64 seed) {
    if (seed > 0xFFFFFFFFU)
        usage_error("--seed", "{} is not below 2^32, which Megatron's order requires", seed);
    return static_cast<u32>(seed);
}

}  // namespace

std::unique_ptr<MegatronSource> MegatronSource::create(TokenRange range, i64 seq_length,
                                                       i64 n_samples, u64 seed,
                                                       double last_epoch_threshold,
                                                       const std::string& what,
                                                       const IndexCache& cache, int n_threads) {
    const i64 n_tokens = range.n_tokens();
    check_tokens(n_tokens, seq_length, what);
    const EpochPlan plan = plan_epochs(n_tokens, seq_length, n_samples, last_epoch_threshold);
    MegatronIndex index =
        shared_index(cache, range, seq_length, plan, checked_seed(seed), n_threads);
    return std::unique_ptr<MegatronSource>(
        new MegatronSource(std::move(range), seq_length, plan, std::move(index)));
}

std::vector<TokenSpan> MegatronSource::spans(i64 sample) const {
    LM_CHECK(sample >= 0 && sample < size(), "expected a sample below {}, got {}", size(), sample);
    const size_t window = static_cast<size_t>(index_.order[static_cast<size_t>(sample)]);
    std::vector<TokenSpan> spans;
    i64 offset = index_.offset[window];
    i64 left = seq_length() + 1;
    for (size_t d = static_cast<size_t>(index_.position[window]); left > 0; ++d) {
        const i64 sequence = d < index_.documents.size() ? index_.documents[d] : -1;
        if (sequence < range_.sequences.begin || sequence >= range_.sequences.end) {
            run_error(range_.dataset->prefix(),
                      "the sample index of this dataset is corrupt: remove its file in the "
                      "directory of --data-cache-path");
        }
        const i64 count = std::min(left, range_.dataset->length(sequence) - offset);
        if (count > 0) spans.push_back({range_.dataset.get(), sequence, offset, count});
        left -= count;
        offset = 0;
    }
    return spans;
}

void MegatronSource::fill(i64 sample, std::span<i32> tokens) const {
    LM_CHECK(static_cast<i64>(tokens.size()) == seq_length() + 1, "expected {} tokens, got {}",
             seq_length() + 1, tokens.size());
    for (const TokenSpan& span : spans(sample)) {
        const size_t count = static_cast<size_t>(span.count);
        read_checked(*range_.dataset, range_.vocab_size,
                     range_.dataset->position(span.sequence) + span.offset, tokens.first(count));
        tokens = tokens.subspan(count);
    }
}

std::vector<DatasetUse> MegatronSource::use(i64 n_samples) const {
    return {dataset_use(range_, n_tokens_, seq_length(), n_samples)};
}

}  // namespace lm::data
