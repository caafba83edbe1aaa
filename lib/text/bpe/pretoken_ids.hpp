// SPDX-License-Identifier: Apache-2.0
// Finds the ids of a batch of pre-tokens. Looks the pre-tokens up in the caches, and runs the merge
// algorithm on all pre-tokens that the caches do not contain, several at a time.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "text/bpe/merges/bpe_model.hpp"
#include "text/bpe/merges/pretoken_cache.hpp"
#include "text/bpe/merges/pretoken_encoder.hpp"
#include "text/bpe/merges/pretoken_loops.hpp"
#include "text/bpe/merges/pretoken_merger.hpp"
#include "text/bpe/x86/pretoken_loops_aes.hpp"
#include "text/bpe/x86/vector_merger.hpp"

namespace lm::text {

// Order of calls for a batch: load() one or more times, find(), copy() of all pre-tokens in order,
// keep(). Several batches may be loaded, but only one batch may be between find() and keep(),
// because copy() reads cache entries in place and no entry may move before copy().
template <typename Id>
class PretokenIds {
  public:
    using Cache = PretokenCache<Id>;
    using Batch = PretokenBatch<Id>;

    PretokenIds(const BpeModel& model, i64 text_bytes)
        : model_(&model),
          encoder_(model),
          short_(text_bytes),
          long_(text_bytes),
          merger_(fastest_merger(model)) {
        elsewhere_.ids.set(std::array<i32, Packed::most>{}.data(), Packed::elsewhere);
    }

    const Cache& cache() const { return short_; }
    u64 operations() const { return encoder_.operations() + merger_->operations(); }

    // Sets the keys and places of the pre-tokens [batch.n, n), prefetches the places, and sets
    // batch.n to `n`.
    void load(std::string_view text, i64 n, Batch& batch) {
        const i64 n_long = batch.n_long;
        // The vectorised loop reads 16 bytes at each pre-token. The last pre-tokens of the text
        // have fewer bytes after their start, and are loaded one by one.
        i64 i = n;
        while (i > batch.n && batch.begin_of(i - 1) + 16 > text.size()) --i;
        loops_.load(text.data(), batch.n, i, batch, short_);
        for (; i < n; ++i) {
            batch.keys[i] = PretokenKey::of(batch.pretoken(text, i));
            batch.at[i] = loops_.place_of(batch.keys[i], short_);
            if (!batch.keys[i].is_short())
                batch.long_pretokens[batch.n_long++] = static_cast<u32>(i);
        }
        batch.n = n;
        for (const u32 m : batch.longs().subspan(static_cast<size_t>(n_long)))
            prefetch_long(batch, m, batch.pretoken(text, m));
    }

    // Sets batch.at of each pre-token of [i, n) to the entry with its ids, or to elsewhere_ if
    // copy() must use the cache of long pre-tokens. Merges the short pre-tokens that no cache
    // contains.
    void find(Batch& batch, i64 i, i64 n) {
        n_at_neighbour_ = n_fresh_ = n_new_ = 0;
        size_t n_maybe_long = 0;
        const i64 n_missing = loops_.find_missing(batch, i, n, missing_);
        for (const u32 m : std::span(missing_).first(static_cast<size_t>(n_missing))) {
            const PretokenKey& key = batch.keys[m];
            const Entry* const neighbour = short_.neighbour_of(batch.at[m]);
            if (!key.is_short()) {
                batch.at[m] = &elsewhere_;
            } else if (neighbour->key == key) {
                batch.at[m] = neighbour;
                at_neighbour_[n_at_neighbour_++] = m;
            } else if (may_be_long(key)) {
                prefetch_long(batch, m, key.text());
                maybe_long_[n_maybe_long++] = m;
            } else {
                add_fresh(batch, m);
            }
        }
        for (const u32 m : std::span(maybe_long_).first(n_maybe_long)) {
            if (long_.has(batch.long_places[m], batch.keys[m].text())) {
                batch.at[m] = &elsewhere_;
            } else {
                add_fresh(batch, m);
            }
        }
        merge_new();
    }

    // Writes the ids of the pre-tokens [i, n) to `out` and returns the end of the written ids.
    Id* copy(const Batch& batch, std::string_view text, i64 i, i64 n, Id* out) {
        for (; (i = copy_ids(batch, i, n, out)) < n; ++i) out = copy_long(batch, text, i, out);
        return out;
    }

    // Inserts the pre-tokens that find() merged into the cache. Call keep() after copy(), because
    // keep() moves entries.
    void keep(const Batch& batch) {
        for (const u32 m : std::span(at_neighbour_).first(n_at_neighbour_))
            short_.move_to_place(short_.neighbour_of(batch.at[m]), batch.keys[m]);
        for (const Fresh& fresh : std::span(fresh_).first(n_fresh_)) {
            if (fresh.entry.ids.count() <= Packed::most) short_.insert(fresh.place, fresh.entry);
        }
    }

    // Returns whether the cache contains the long pre-token `m` of a loaded batch. A later
    // insertion may evict this entry; copy() then merges the pre-token.
    bool has_long(const Batch& batch, std::string_view text, u32 m) const {
        return long_.has(batch.long_places[m], batch.pretoken(text, m));
    }
    void keep_long(const Batch& batch, std::string_view text, u32 m, std::span<const Id> ids) {
        long_.insert(batch.long_places[m], batch.pretoken(text, m), ids.data(), ids.size());
    }

    // Merges the long pre-tokens of the batch that have at most MediumIds::longest bytes and are
    // not in the cache, and inserts their ids into the cache. The bytes after each pre-token must
    // be readable as PretokenMerger requires.
    void merge_longs(const Batch& batch, std::string_view text) {
        const std::span<const u32> longs = batch.longs();
        for (size_t i = 0; i < longs.size();) {
            size_t n = 0;
            for (; n < max_medium && i < longs.size(); ++i) {
                const std::string_view pretoken = batch.pretoken(text, longs[i]);
                if (pretoken.size() > MediumIds::longest || has_long(batch, text, longs[i]))
                    continue;
                medium_[n] = pretoken;
                medium_pretokens_[n++] = longs[i];
            }
            merger_->merge(std::span(medium_).first(n), medium_ids_);
            for (size_t k = 0; k < n; ++k) {
                Id ids[MediumIds::longest];
                const u32 count = medium_ids_[k].count;
                std::copy_n(medium_ids_[k].ids, count, ids);
                keep_long(batch, text, medium_pretokens_[k], {ids, count});
            }
        }
    }

    // Appends the ids of a pre-token of any length. Does not use the caches.
    void merge(std::string_view pretoken, IdBuffer& out) {
        encoder_.encode(pretoken, [&](std::span<const i32> ids) {
            for (const i32 id : ids) out.push(id);
        });
    }

  private:
    using Entry = typename Cache::Entry;
    using Packed = PackedIds<Id>;

    // A short pre-token that no cache contains.
    struct Fresh {
        Entry entry;
        const Entry* place;  // its place in the cache
    };

    // Returns whether a short pre-token can be in the cache of long pre-tokens, because an entry of
    // the short cache has no room for all its ids. Returns true only for non-ASCII text and
    // whitespace. Other short pre-tokens rarely have too many ids. find() does not look for them in
    // the cache of long pre-tokens, and merges them at every occurrence.
    static bool may_be_long(const PretokenKey& key) {
        return key.length() > Packed::most && (!key.is_ascii() || key.byte(1) <= ' ');
    }

    void prefetch_long(Batch& batch, u32 m, std::string_view pretoken) {
        batch.long_places[m] = long_.place_of(pretoken);
        long_.prefetch(batch.long_places[m]);
    }

    void add_fresh(Batch& batch, u32 m) {
        // A new pre-token often occurs several times in a batch, and is merged only once.
        u16& latest = latest_[short_.index_of(batch.at[m]) % latest_.size()];
        if (latest < n_fresh_ && fresh_[latest].entry.key == batch.keys[m]) {
            batch.at[m] = &fresh_[latest].entry;
            return;
        }
        latest = static_cast<u16>(n_fresh_);
        Fresh& fresh = fresh_[n_fresh_];
        fresh.place = batch.at[m];
        fresh.entry.key = batch.keys[m];
        batch.at[m] = &fresh.entry;
        const i32 whole = model_->find_whole(batch.keys[m].text());
        if (whole >= 0) {
            fresh.entry.ids.set(std::array<i32, Packed::most>{whole}.data(), 1);
        } else {
            new_[n_new_] = batch.keys[m];
            fresh_index_[n_new_++] = static_cast<u32>(n_fresh_);
        }
        ++n_fresh_;
    }

    void merge_new() {
        merger_->merge(std::span(new_).first(n_new_), new_ids_);
        for (size_t k = 0; k < n_new_; ++k) {
            const ShortIds& merged = new_ids_[k];
            fresh_[fresh_index_[k]].entry.ids.set(merged.ids, merged.count);
            if (merged.count > Packed::most) put_elsewhere(new_[k].text(), merged);
        }
    }

    // Inserts a short pre-token into the cache of long pre-tokens, because a short entry has no
    // room for its ids.
    void put_elsewhere(std::string_view pretoken, const ShortIds& merged) {
        Id ids[PretokenKey::longest];
        std::copy_n(merged.ids, merged.count, ids);
        long_.insert(long_.place_of(pretoken), pretoken, ids, merged.count);
    }

    Id* copy_long(const Batch& batch, std::string_view text, i64 i, Id* out) {
        const std::string_view pretoken = batch.pretoken(text, i);
        const PretokenKey& key = batch.keys[i];
        const bool has_place = !key.is_short() || may_be_long(key);
        const u32 place = has_place ? batch.long_places[i] : long_.place_of(pretoken);
        if (const size_t count = long_.find(place, pretoken, out)) return out + count;
        encoder_.encode(pretoken, [&](std::span<const i32> ids) {
            for (const i32 id : ids) *out++ = static_cast<Id>(id);
        });
        return out;
    }

    static std::unique_ptr<PretokenMerger> fastest_merger(const BpeModel& model) {
        for (const MergerWords words : {MergerWords::narrow, MergerWords::wide})
            if (auto merger = make_vector_merger(model, words)) return merger;
        return make_portable_merger(model);
    }

    static PretokenLoops<Id> fastest_loops() {
        return has_aes_loops() ? aes_loops<Id>() : portable_loops<Id>();
    }

    static constexpr size_t max_medium = 256;

    const BpeModel* model_;
    PretokenEncoder encoder_;
    Cache short_;
    LongPretokenCache<Id> long_;
    PretokenLoops<Id> loops_ = fastest_loops();
    std::unique_ptr<PretokenMerger> merger_;
    Entry elsewhere_{};
    // The state of a batch between find() and keep().
    u32 missing_[Batch::capacity + Batch::slack], maybe_long_[Batch::capacity];
    size_t n_at_neighbour_ = 0, n_fresh_ = 0, n_new_ = 0;
    u32 at_neighbour_[Batch::capacity];
    Fresh fresh_[Batch::capacity];
    std::array<u16, 1024> latest_{};    // by cache place: index in fresh_ of the last new pre-token
    PretokenKey new_[Batch::capacity];  // keys of the pre-tokens of fresh_ that need merges
    u32 fresh_index_[Batch::capacity];
    ShortIds new_ids_[Batch::capacity];
    std::string_view medium_[max_medium];  // long pre-tokens to merge
    u32 medium_pretokens_[max_medium];
    MediumIds medium_ids_[max_medium];
};

}  // namespace lm::text
