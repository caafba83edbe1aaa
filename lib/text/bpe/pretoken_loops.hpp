// SPDX-License-Identifier: Apache-2.0
// The innermost loops over pre-tokens: keys and places in the cache, and which are missing there.
// There is one set of them for any machine, one for AVX2 with AES and one for AVX-512; they differ
// in speed and in the hash only. Ids are copied out of the cache in one way on all of them.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "base/types.hpp"
#include "text/bpe/pretoken_cache.hpp"
#include "text/bpe/pretoken_key.hpp"

namespace lm::text {

// Some pre-tokens of a text, back to back.
template <typename Id>
struct PretokenBatch {
    // Enough for some dozens that are new, which are merged side by side.
    static constexpr i64 capacity = 2048;

    static constexpr i64 slack = 16;  // loops may look at as many more

    i64 n = 0;
    u32 begin = 0;  // of the first one in the text
    alignas(64) u32 ends[capacity + slack];
    alignas(64) PretokenKey keys[capacity + slack];
    // Where the ids of each are: its place in the cache at first.
    alignas(64) const typename PretokenCache<Id>::Entry* at[capacity + slack];
    i64 n_long = 0;
    u32 long_pretokens[capacity];  // those of 16 bytes and more
    // In the cache of long pre-tokens, of those that may be there.
    u32 long_places[capacity];

    explicit PretokenBatch(const PretokenCache<Id>& cache) {
        std::fill(std::begin(at), std::end(at), cache.entries());
    }

    void clear() { n = n_long = 0; }
    std::span<const u32> longs() const { return {long_pretokens, static_cast<size_t>(n_long)}; }
    u32 begin_of(i64 i) const { return i == 0 ? begin : ends[i - 1]; }
    std::string_view pretoken(std::string_view text, i64 i) const {
        return text.substr(begin_of(i), ends[i] - begin_of(i));
    }
};

template <typename Id>
struct PretokenLoops {
    using Cache = PretokenCache<Id>;
    using Batch = PretokenBatch<Id>;

    const typename Cache::Entry* (*place_of)(const PretokenKey& key, const Cache& cache);

    // Fills in keys and places of the pre-tokens from `i` to before `n`, notes the long ones and
    // fetches the places. 16 bytes from the beginning of each are readable.
    void (*load)(const char* text, i64 i, i64 n, Batch& batch, const Cache& cache);

    // Those from `i` to before `n` that are not where `at` says; returns how many. `missing` has
    // room for the slack too.
    i64 (*find_missing)(const Batch& batch, i64 i, i64 n, u32* missing);
};

template <typename Id>
PretokenLoops<Id> portable_loops();

// Copies the ids of the pre-tokens from `i` to before `n`, up to the first whose entry counts more
// ids than an entry can hold; returns which one that is. 16 bytes behind the ids may be
// overwritten.
template <typename Id>
inline i64 copy_ids(const PretokenBatch<Id>& batch, i64 i, i64 n, Id*& out) {
    Id* to = out;
    for (; i < n; ++i) {
        const PackedIds<Id>& ids = batch.at[i]->ids;
        if (ids.count() > PackedIds<Id>::most) break;
        ids.copy_to(to);
        to += ids.count();
    }
    out = to;
    return i;
}

}  // namespace lm::text
