// SPDX-License-Identifier: Apache-2.0
// The innermost loops over a batch of pre-tokens. They compute keys and cache places, and find the
// pre-tokens that are not in the cache. There are three versions: a portable one, one for AVX2 with
// AES, and one for AVX-512. They differ only in speed and in the hash, so all machines produce the
// same ids.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "base/types.hpp"
#include "text/bpe/merges/pretoken_cache.hpp"
#include "text/bpe/merges/pretoken_key.hpp"

namespace lm::text {

// Consecutive pre-tokens of a text, as a structure of arrays for the vectorised loops.
template <typename Id>
struct PretokenBatch {
    // A batch of this size has some dozens of new pre-tokens, which are enough to merge several at
    // a time.
    static constexpr i64 capacity = 2048;

    static constexpr i64 slack = 16;  // the loops may read this many entries after the end

    i64 n = 0;
    u32 begin = 0;  // offset of the first pre-token in the text
    alignas(64) u32 ends[capacity + slack];
    alignas(64) PretokenKey keys[capacity + slack];
    // After load(): the place of each pre-token in the cache. After PretokenIds::find(): the entry
    // with its ids.
    alignas(64) const typename PretokenCache<Id>::Entry* at[capacity + slack];
    i64 n_long = 0;
    u32 long_pretokens[capacity];  // indices of the pre-tokens of 16 bytes and more
    // Places in the cache of long pre-tokens. Set only for pre-tokens that can be in that cache.
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

    // Sets the keys and places of the pre-tokens [i, n), appends the indices of the long ones to
    // long_pretokens, and prefetches the places. 16 bytes must be readable at each pre-token.
    void (*load)(const char* text, i64 i, i64 n, Batch& batch, const Cache& cache);

    // Writes to `missing` the index of each pre-token of [i, n) whose place in the cache holds
    // another key. Returns the number of these indices. `missing` has room for n - i + slack
    // indices.
    i64 (*find_missing)(const Batch& batch, i64 i, i64 n, u32* missing);
};

template <typename Id>
PretokenLoops<Id> portable_loops();

// Copies the ids of the pre-tokens [i, n) to `out`, up to the first pre-token whose ids are not in
// its entry. Returns the index of that pre-token, or n, and sets `out` to the end of the copied
// ids. May write 16 bytes after the copied ids.
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
