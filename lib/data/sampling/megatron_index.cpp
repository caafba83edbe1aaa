// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/megatron_index.hpp"

#include <bit>
#include <numeric>
#include <thread>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "base/threads.hpp"

namespace lm::data {
namespace {

std::vector<i32> shuffled_documents(const SequenceRange& sequences, i64 n_epochs,
                                    NumpyRandom& random) {
    std::vector<i32> documents(static_cast<size_t>(checked_mul(sequences.size(), n_epochs)));
    for (size_t k = 0; k < documents.size(); ++k) {
        documents[k] = static_cast<i32>(sequences.begin + static_cast<i64>(k) % sequences.size());
    }
    random.shuffle(std::span(documents));
    return documents;
}

// Owns the arrays of an index that build() has computed.
struct Arrays {
    std::vector<i32> documents;
    std::vector<i64> position;
    std::vector<i32> offset;
    std::vector<i64> order;
};

// Computes where each window begins. Adjacent windows share one token, so window k begins with
// token k * seq_length of the stream of shuffled documents. Megatron's build_sample_idx walks the
// stream and finds the same places. As in Megatron, window 0 begins at the first document even if
// that document is empty.
void cut_into_samples(const IndexedDataset& dataset, i64 seq_length, ThreadPool& pool,
                      Arrays& index) {
    constexpr i64 grain = 1 << 16;
    const i64 n_documents = static_cast<i64>(index.documents.size());
    const auto length = [&](i64 d) {
        return dataset.length(index.documents[static_cast<size_t>(d)]);
    };
    std::vector<i64> starts(static_cast<size_t>(ceil_div(n_documents, grain)) + 1);
    pool.run_ranges(n_documents, grain, [&](i64 begin, i64 end, int) {
        i64 tokens = 0;
        for (i64 d = begin; d < end; ++d) tokens += length(d);
        starts[static_cast<size_t>(begin / grain) + 1] = tokens;
    });
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    const i64 n = static_cast<i64>(index.position.size());
    pool.run_ranges(n_documents, grain, [&](i64 begin, i64 end, int) {
        i64 at = starts[static_cast<size_t>(begin / grain)];
        i64 sample = ceil_div(at, seq_length);
        for (i64 d = begin; d < end && sample < n; ++d) {
            const i64 next = at + length(d);
            for (; sample * seq_length < next && sample < n; ++sample) {
                index.position[static_cast<size_t>(sample)] = d;
                index.offset[static_cast<size_t>(sample)] =
                    static_cast<i32>(sample * seq_length - at);
            }
            at = next;
        }
    });
    index.position.front() = 0;
    index.offset.front() = 0;
}

void shuffle_samples(const EpochPlan& plan, NumpyRandom& random, std::vector<i64>& order) {
    order.resize(static_cast<size_t>(plan.n_samples));
    std::iota(order.begin(), order.end(), i64{0});
    const std::span<i64> samples(order);
    const size_t first =
        static_cast<size_t>(plan.separate_last ? plan.samples_before_last : plan.n_samples);
    random.shuffle(samples.first(first));
    random.shuffle(samples.subspan(first));
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
    LM_CHECK(n_tokens > seq_length, "expected at least the {} tokens of a sample, got {}",
             seq_length + 1, n_tokens);
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
                                   u32 seed, int n_threads) {
    if (range.sequences.end > std::numeric_limits<i32>::max()) {
        usage_error("--data-order",
                    "{}: document {} is used, but Megatron's orders support at most 2^31 - 1 "
                    "documents: use --data-order stateless",
                    range.dataset->prefix(), range.sequences.end - 1);
    }
    NumpyRandom random(seed);
    const auto arrays = std::make_shared<Arrays>();
    const i64 first_epochs = plan.separate_last ? plan.n_epochs - 1 : plan.n_epochs;
    arrays->documents = shuffled_documents(range.sequences, first_epochs, random);
    if (plan.separate_last) {
        const auto last = shuffled_documents(range.sequences, 1, random);
        arrays->documents.insert(arrays->documents.end(), last.begin(), last.end());
    }
    arrays->position.resize(static_cast<size_t>(plan.n_samples) + 1);
    arrays->offset.resize(static_cast<size_t>(plan.n_samples) + 1);
    {
        ThreadPool pool(n_threads);
        std::jthread order;
        const auto shuffle = [&] { shuffle_samples(plan, random, arrays->order); };
        if (n_threads > 1) order = start_thread<std::jthread>(shuffle);
        cut_into_samples(*range.dataset, seq_length, pool, *arrays);
        if (n_threads <= 1) shuffle();
    }
    return {arrays->documents, arrays->position, arrays->offset, arrays->order, arrays};
}

}  // namespace lm::data
