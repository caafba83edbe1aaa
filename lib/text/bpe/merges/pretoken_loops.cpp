// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/merges/pretoken_loops.hpp"

namespace lm::text {
namespace {

template <typename Id>
struct Portable {
    using Cache = PretokenCache<Id>;
    using Batch = PretokenBatch<Id>;

    static const typename Cache::Entry* place_of(const PretokenKey& key, const Cache& cache) {
        const u64 h = (key.low ^ (key.high * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
        return cache.place_of(static_cast<u32>(h >> 32));
    }

    static void load(const char* text, i64 i, i64 n, Batch& batch, const Cache& cache) {
        u32 begin = batch.begin_of(i);
        for (; i < n; ++i) {
            batch.keys[i] = PretokenKey::load(text + begin, batch.ends[i] - begin);
            batch.at[i] = place_of(batch.keys[i], cache);
            __builtin_prefetch(batch.at[i]);
            if (!batch.keys[i].is_short())
                batch.long_pretokens[batch.n_long++] = static_cast<u32>(i);
            begin = batch.ends[i];
        }
    }

    static i64 find_missing(const Batch& batch, i64 i, i64 n, u32* missing) {
        i64 found = 0;
        for (; i < n; ++i) {
            missing[found] = static_cast<u32>(i);
            found += batch.at[i]->key != batch.keys[i] ? 1 : 0;
        }
        return found;
    }
};

}  // namespace

template <typename Id>
PretokenLoops<Id> portable_loops() {
    using Loops = Portable<Id>;
    return {Loops::place_of, Loops::load, Loops::find_missing};
}
template PretokenLoops<u16> portable_loops();
template PretokenLoops<i32> portable_loops();

}  // namespace lm::text
