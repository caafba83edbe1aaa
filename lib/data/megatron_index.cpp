// SPDX-License-Identifier: Apache-2.0
#include "data/megatron_index.hpp"

#include <bit>
#include <numeric>

#include "base/error.hpp"

namespace lm::data {
namespace {

std::vector<i32> shuffled_documents(const Range& sequences, i64 n_epochs, NumpyRandom& random) {
    std::vector<i32> documents(static_cast<size_t>(checked_mul(sequences.size(), n_epochs)));
    for (size_t k = 0; k < documents.size(); ++k) {
        documents[k] = static_cast<i32>(sequences.begin + static_cast<i64>(k) % sequences.size());
    }
    random.shuffle(std::span(documents));
    return documents;
}

// Walks the documents in their order and notes where each sample begins.
void cut_into_samples(const IndexedDataset& dataset, i64 seq_length, i64 n_samples,
                      MegatronIndex& index) {
    index.position.reserve(static_cast<size_t>(n_samples) + 1);
    index.offset.reserve(static_cast<size_t>(n_samples) + 1);
    i64 position = 0;
    i64 offset = 0;
    index.position.push_back(position);
    index.offset.push_back(0);
    for (i64 sample = 0; sample < n_samples; ++sample) {
        // Neighbours share one token, so each begins seq_length tokens after the other; the offset
        // stays on the last token of a document rather than before the first of the next one.
        i64 left = seq_length;
        while (true) {
            const i64 length =
                dataset.length(index.documents[static_cast<size_t>(position)]) - offset;
            if (length > left) break;
            left -= length;
            offset = 0;
            ++position;
        }
        offset += left;
        index.position.push_back(position);
        index.offset.push_back(static_cast<i32>(offset));
    }
}

}  // namespace

u64 NumpyRandom::interval(u64 max) {
    if (max == 0) return 0;
    const u64 mask = ~u64{0} >> std::countl_zero(max);
    u64 value;
    do {
        value = engine_();
        if (max > 0xFFFFFFFFU) value = (value << 32) | engine_();
        value &= mask;
    } while (value > max);
    return value;
}

EpochPlan plan_epochs(i64 n_tokens, i64 seq_length, i64 n_samples, double last_epoch_threshold) {
    LM_CHECK(n_tokens > seq_length, "too few tokens for a sample");
    EpochPlan plan;
    plan.n_epochs = std::max<i64>(1, ceil_div(checked_mul(n_samples, seq_length) + 1, n_tokens));
    plan.n_samples = (checked_mul(plan.n_epochs, n_tokens) - 1) / seq_length;
    if (plan.n_epochs == 1) return plan;
    plan.samples_before_last = ((plan.n_epochs - 1) * n_tokens - 1) / seq_length;
    const i64 of_last = n_samples - plan.samples_before_last;
    const i64 per_epoch = (n_tokens - 1) / seq_length;
    plan.separate_last =
        of_last < static_cast<i64>(last_epoch_threshold * static_cast<double>(per_epoch));
    return plan;
}

MegatronIndex MegatronIndex::build(const TokenRange& range, i64 seq_length, const EpochPlan& plan,
                                   u32 seed) {
    if (range.sequences.end > std::numeric_limits<i32>::max()) {
        usage_error("--data-order", "{} has {} documents, Megatron's order takes at most 2^31",
                    range.dataset->prefix(), range.dataset->n_sequences());
    }
    NumpyRandom random(seed);
    MegatronIndex index;
    const i64 first_epochs = plan.separate_last ? plan.n_epochs - 1 : plan.n_epochs;
    index.documents = shuffled_documents(range.sequences, first_epochs, random);
    if (plan.separate_last) {
        const auto last = shuffled_documents(range.sequences, 1, random);
        index.documents.insert(index.documents.end(), last.begin(), last.end());
    }
    cut_into_samples(*range.dataset, seq_length, plan.n_samples, index);
    index.order.resize(static_cast<size_t>(plan.n_samples));
    std::iota(index.order.begin(), index.order.end(), i64{0});
    const std::span<i64> order(index.order);
    const size_t first =
        static_cast<size_t>(plan.separate_last ? plan.samples_before_last : plan.n_samples);
    random.shuffle(order.first(first));
    random.shuffle(order.subspan(first));
    return index;
}

}  // namespace lm::data
