// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_encoder.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "text/piece_cache.hpp"
#include "text/piece_loops.hpp"
#include "text/short_merger.hpp"
#include "text/vector_merger.hpp"

namespace lm::text {
namespace {

template <typename Id>
PieceLoops<Id> fastest_loops() {
    return has_aes_loops() ? aes_loops<Id>() : portable_loops<Id>();
}

// Id is the type the cache stores and the output has: u16 when the vocabulary allows.
template <typename Id>
class BpeEncoder : public Encoder {
  public:
    explicit BpeEncoder(const BpePlan& plan)
        : plan_(plan),
          splitter_(make_splitter(plan.rule)),
          pieces_(*plan.model),
          shorts_(*plan.model) {
        if (sizeof(Id) == 2 && VectorMerger::is_for(*plan.model)) vector_.emplace(*plan.model);
    }

    i64 encode(std::string_view text, u16* out) override {
        LM_CHECK(sizeof(Id) == 2, "ids of this tokenizer do not fit 16 bits");
        if constexpr (sizeof(Id) == 2) return encode_text(text, out);
        return 0;
    }

    i64 encode(std::string_view text, i32* out) override {
        if constexpr (sizeof(Id) == 4) {
            return encode_text(text, out);
        } else {
            const i64 n = encode_text(text, reinterpret_cast<u16*>(out));
            widen(out, n);
            return n;
        }
    }

    u64 operations() const override {
        return pieces_.operations() + shorts_.operations() + (vector_ ? vector_->operations() : 0);
    }

  private:
    // u16 ids at the front of the buffer become i32 in place, from the back.
    static void widen(i32* out, i64 n) {
        const char* bytes = reinterpret_cast<const char*>(out);
        for (i64 i = n - 1; i >= 0; --i) {
            u16 id;
            std::memcpy(&id, bytes + 2 * i, sizeof id);
            out[i] = id;
        }
    }

    using Cache = PieceCache<Id>;
    using LongCache = LongPieceCache<Id>;
    using Entry = typename Cache::Entry;
    using Batch = PieceBatch<Id>;

    i64 encode_text(std::string_view text, Id* out) { return encode_plain(text, out) - out; }

    Id* encode_plain(std::string_view text, Id* out) {
        splitter_->start(text);
        batch_.begin = 0;
        while (fill_batch(text)) {
            out = encode_batch(text, out);
            batch_.begin = batch_.ends[batch_.n - 1];
        }
        return out;
    }

    // Some pieces are split, then their places fetched, then more split: memory is not asked for
    // faster than it answers.
    bool fill_batch(std::string_view text) {
        constexpr i64 some = 128;
        batch_.n = batch_.n_long = 0;
        while (batch_.n + some <= Batch::capacity) {
            const i64 n = splitter_->next(batch_.ends + batch_.n, some);
            if (n == 0) break;
            load_keys(text, batch_.n + n, batch_);
        }
        return batch_.n > 0;
    }

    // Of the pieces from batch.n on, which becomes `n`.
    void load_keys(std::string_view text, i64 n, Batch& batch) {
        // Near the end of the text 16 bytes may not be readable.
        i64 i = n;
        while (i > batch.n && batch.begin_of(i - 1) + 16 > text.size()) --i;
        loops_.load(text.data(), batch.n, i, batch, short_);
        for (; i < n; ++i) {
            batch.keys[i] = PieceKey::of(batch.piece(text, i));
            batch.at[i] = loops_.place_of(batch.keys[i], short_);
            if (!batch.keys[i].is_short()) batch.long_pieces[batch.n_long++] = static_cast<u32>(i);
        }
        batch.n = n;
    }

    // A long piece that its cache does not know is encoded by itself, and its parts go into the
    // cache of short ones, where nothing may move while a segment is copied.
    Id* encode_batch(std::string_view text, Id* out) {
        const std::span<const u32> longs(batch_.long_pieces, static_cast<size_t>(batch_.n_long));
        for (const u32 i : longs) long_.prefetch(batch_.piece(text, i));
        i64 begin = 0;
        for (const u32 i : longs) {
            const std::string_view piece = batch_.piece(text, i);
            if (long_.has(piece)) continue;
            out = encode_segment(text, batch_, begin, i, out);
            out = encode_long(text, batch_.begin_of(i), batch_.ends[i], out);
            begin = i + 1;
        }
        return encode_segment(text, batch_, begin, batch_.n, out);
    }

    Id* encode_segment(std::string_view text, Batch& batch, i64 i, i64 n, Id* out) {
        find_ids(batch, i, n);
        for (; (i = copy_ids(batch, i, n, out)) < n; ++i)
            out = copy_elsewhere(batch.piece(text, i), out);
        for (const u32 m : std::span(beside_).first(n_beside_))
            short_.bring(short_.neighbour_of(batch.at[m]), batch.keys[m]);
        for (const Fresh& fresh : std::span(fresh_).first(n_fresh_)) {
            const Entry& entry = fresh.entry;
            if (entry.count <= static_cast<Id>(Cache::most_ids))
                short_.insert(fresh.place, entry.key, entry.ids, entry.count);
        }
        return out;
    }

    // Has `at` of the short pieces from `i` to before `n` say where their ids are.
    void find_ids(Batch& batch, i64 i, i64 n) {
        n_beside_ = n_fresh_ = n_new_ = 0;
        const i64 n_missing = loops_.find_missing(batch, i, n, missing_);
        for (const u32 m : std::span(missing_).first(static_cast<size_t>(n_missing))) {
            const PieceKey& key = batch.keys[m];
            if (!key.is_short()) {
                batch.at[m] = &elsewhere_;
                continue;
            }
            const Entry* const beside = short_.neighbour_of(batch.at[m]);
            if (beside->key == key) {
                batch.at[m] = beside;
                beside_[n_beside_++] = m;
            } else if (is_in_long(key)) {
                batch.at[m] = &elsewhere_;
            } else {
                add_fresh(batch, m);
            }
        }
        merge_new();
    }

    void add_fresh(Batch& batch, u32 m) {
        Fresh& fresh = fresh_[n_fresh_];
        fresh.place = batch.at[m];
        fresh.entry.key = batch.keys[m];
        batch.at[m] = &fresh.entry;
        const i32 whole = plan_.model->find_whole(batch.keys[m].text());
        if (whole >= 0) {
            fresh.entry.ids[0] = static_cast<Id>(whole);
            fresh.entry.count = 1;
        } else {
            new_[n_new_] = batch.keys[m];
            fresh_of_new_[n_new_++] = static_cast<u32>(n_fresh_);
        }
        ++n_fresh_;
    }

    void merge_new() {
        const std::span<const PieceKey> pieces = std::span(new_).first(n_new_);
        if constexpr (sizeof(Id) == 2) {
            if (vector_) {
                vector_->merge(pieces, new_ids_);
                for (size_t k = 0; k < n_new_; ++k) put(k, new_ids_[k].ids, new_ids_[k].count);
                return;
            }
        }
        shorts_.merge(pieces, [&](size_t k, std::span<const i32> ids) {
            Id narrow[PieceKey::longest];
            std::copy(ids.begin(), ids.end(), narrow);
            put(k, narrow, ids.size());
        });
    }

    // Too many ids for an entry go into the other cache.
    void put(size_t k, const Id* ids, size_t count) {
        Entry& entry = fresh_[fresh_of_new_[k]].entry;
        std::memcpy(entry.ids, ids, sizeof entry.ids);
        entry.count = static_cast<Id>(count);
        if (count > Cache::most_ids) long_.insert(new_[k].text(), ids, count);
    }

    // Whether a short piece is in the other cache. Of 16-bit ids that is rare but for scripts
    // beyond ASCII and for whitespace, and not asked for others.
    bool is_in_long(const PieceKey& key) const {
        return key.length() > Cache::most_ids &&
               (sizeof(Id) == 4 || !key.is_ascii() || key.byte(1) <= ' ') && long_.has(key.text());
    }

    // A piece that was in the cache of long ones, but may have been pushed out by now, or a long
    // part of such a piece.
    [[gnu::noinline]] Id* copy_elsewhere(std::string_view piece, Id* out) {
        if (const size_t count = long_.find(piece, out)) return out + count;
        return merge(piece, out);
    }

    [[gnu::noinline]] Id* encode_long(std::string_view text, u32 begin, u32 end, Id* out) {
        const std::string_view piece = text.substr(begin, end - begin);
        if (const i32 whole = plan_.model->find_whole(piece); whole >= 0) {
            *out = static_cast<Id>(whole);
            return out + 1;
        }
        Id* const behind = encode_parts(text, begin, end, out);
        long_.insert(piece, out, static_cast<size_t>(behind - out));
        return behind;
    }

    // Cut where no merge ever crosses, so that the parts may come out of the caches again. Of a
    // whole piece these say what it becomes, not what a part does that looks like it.
    Id* encode_parts(std::string_view text, u32 begin, u32 end, Id* out) {
        constexpr i64 some = 64;  // long pieces mostly have fewer parts
        const auto byte = [&](u32 i) { return static_cast<u8>(text[i]); };
        const bool any_whole = plan_.model->has_whole_pieces();
        parts_.begin = begin;
        u32 part = begin;
        i64 n = 0;
        for (u32 i = begin + 1; i <= end; ++i) {
            if (i < end && plan_.model->may_join(byte(i - 1), byte(i))) continue;
            const std::string_view bytes = text.substr(part, i - part);
            part = i;
            const bool like_whole = any_whole && plan_.model->find_whole(bytes) >= 0;
            if (!like_whole) parts_.ends[n++] = i;
            if (i < end && n < some && !like_whole) continue;
            if (n > 0) out = encode_parts_until(text, n, out);
            if (like_whole) out = merge(bytes, out);
            parts_.begin = i;
            n = 0;
        }
        return out;
    }

    Id* encode_parts_until(std::string_view text, i64 n, Id* out) {
        parts_.n = parts_.n_long = 0;
        load_keys(text, n, parts_);
        return encode_segment(text, parts_, 0, n, out);
    }

    Id* merge(std::string_view piece, Id* out) {
        pieces_.encode(piece, [&](std::span<const i32> ids) {
            for (const i32 id : ids) *out++ = static_cast<Id>(id);
        });
        return out;
    }

    // A short piece that no cache knew.
    struct Fresh {
        Entry entry;
        const Entry* place;  // in the cache
    };

    BpePlan plan_;
    std::unique_ptr<Splitter> splitter_;
    PieceEncoder pieces_;
    Cache short_;
    LongCache long_;
    PieceLoops<Id> loops_ = fastest_loops<Id>();
    ShortMerger shorts_;
    std::optional<VectorMerger> vector_;  // where there is one, instead of shorts_
    Batch batch_{short_}, parts_{short_};
    const Entry elsewhere_{{}, {}, static_cast<Id>(0xFFFF)};
    // Of a segment.
    u32 missing_[Batch::capacity + Batch::slack];
    size_t n_beside_ = 0, n_fresh_ = 0, n_new_ = 0;
    u32 beside_[Batch::capacity];
    Fresh fresh_[Batch::capacity];
    PieceKey new_[Batch::capacity];  // those of fresh_ that are to be merged
    u32 fresh_of_new_[Batch::capacity];
    ShortIds new_ids_[Batch::capacity];
};

}  // namespace

std::unique_ptr<Encoder> make_bpe_encoder(const BpePlan& plan) {
    if (plan.model->vocab_size() <= 65536) return std::make_unique<BpeEncoder<u16>>(plan);
    return std::make_unique<BpeEncoder<i32>>(plan);
}

}  // namespace lm::text
