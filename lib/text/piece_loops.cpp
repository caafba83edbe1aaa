// SPDX-License-Identifier: Apache-2.0
#include "text/piece_loops.hpp"

namespace lm::text {
namespace {

template <typename Id>
struct Portable {
    using Cache = PieceCache<Id>;

    static u32 place_of(const PieceKey& key) {
        const u64 h = (key.low ^ (key.high * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
        return static_cast<u32>(h >> 32) % Cache::n_places;
    }

    static void load(const char* text, i64 n, PieceBatch& batch, const Cache& cache) {
        u32 at = batch.begin;
        for (i64 i = 0; i < n; ++i) {
            batch.keys[i] = PieceKey::load(text + at, batch.ends[i] - at);
            batch.places[i] = place_of(batch.keys[i]);
            __builtin_prefetch(cache.entries() + batch.places[i]);
            at = batch.ends[i];
        }
    }

    static i64 copy(const PieceBatch& batch, i64 i, const Cache& cache, Id*& out) {
        Id* to = out;
        for (; i < batch.n; ++i) {
            const auto& entry = cache.entries()[batch.places[i]];
            if (entry.key != batch.keys[i]) break;
            std::memcpy(to, entry.ids, 16);
            to += entry.count;
        }
        out = to;
        return i;
    }

    static i64 find_missing(const PieceBatch& batch, i64 i, const Cache& cache, u32* missing) {
        i64 n = 0;
        for (; i < batch.n; ++i) {
            missing[n] = static_cast<u32>(i);
            n += cache.entries()[batch.places[i]].key != batch.keys[i] ? 1 : 0;
        }
        return n;
    }
};

}  // namespace

template <typename Id>
PieceLoops<Id> portable_loops() {
    using Loops = Portable<Id>;
    return {Loops::place_of, Loops::load, Loops::copy, Loops::find_missing};
}
template PieceLoops<u16> portable_loops();
template PieceLoops<i32> portable_loops();

}  // namespace lm::text
