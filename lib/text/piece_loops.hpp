// SPDX-License-Identifier: Apache-2.0
// The innermost loops over pieces: keys and places in the cache, and ids out of it. There is one
// set of them for any machine and one for AVX2 with AES; they differ in speed and in the hash only.
#pragma once

#include "base/types.hpp"
#include "text/piece_cache.hpp"
#include "text/piece_key.hpp"

namespace lm::text {

// Some pieces of a text, back to back.
struct PieceBatch {
    static constexpr i64 capacity = 512;  // their cache lines fit the first-level cache

    i64 n = 0;
    u32 begin = 0;  // of the first one in the text
    alignas(64) u32 ends[capacity];
    alignas(64) u32 places[capacity];
    alignas(64) PieceKey keys[capacity];

    u32 begin_of(i64 i) const { return i == 0 ? begin : ends[i - 1]; }
    std::string_view piece(std::string_view text, i64 i) const {
        return text.substr(begin_of(i), ends[i] - begin_of(i));
    }
};

template <typename Id>
struct PieceLoops {
    using Cache = PieceCache<Id>;

    u32 (*place_of)(const PieceKey& key);

    // Fills in keys and places of the first `n` pieces, and fetches their entries. 16 bytes from
    // the beginning of each are readable.
    void (*load)(const char* text, i64 n, PieceBatch& batch, const Cache& cache);

    // Copies the ids of the pieces from `i` on to `out`, up to the first that is not at its place;
    // returns which one that is. 16 bytes behind the ids may be overwritten.
    i64 (*copy)(const PieceBatch& batch, i64 i, const Cache& cache, Id*& out);

    // The pieces from `i` on that are not at their places; returns how many.
    i64 (*find_missing)(const PieceBatch& batch, i64 i, const Cache& cache, u32* missing);
};

template <typename Id>
PieceLoops<Id> portable_loops();
bool has_aes_loops();
bool has_wide_aes();  // AVX-512 and VAES: four keys at a time
template <typename Id>
PieceLoops<Id> aes_loops(bool wide = has_wide_aes());  // where has_aes_loops()

}  // namespace lm::text
