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

    i64 encode_text(std::string_view text, Id* out) { return encode_plain(text, out) - out; }

    Id* encode_plain(std::string_view text, Id* out) {
        splitter_->start(text);
        batch_.begin = 0;
        while ((batch_.n = splitter_->next(batch_.ends, PieceBatch::capacity)) != 0) {
            load_keys(text);
            out = encode_batch(text, out);
            batch_.begin = batch_.ends[batch_.n - 1];
        }
        return out;
    }

    void load_keys(std::string_view text) {
        // Near the end of the text 16 bytes may not be readable.
        i64 n = batch_.n;
        while (n > 0 && batch_.begin_of(n - 1) + 16 > text.size()) --n;
        loops_.load(text.data(), n, batch_, short_);
        for (; n < batch_.n; ++n) {
            batch_.keys[n] = PieceKey::of(batch_.piece(text, n));
            batch_.places[n] = loops_.place_of(batch_.keys[n]);
        }
    }

    Id* encode_batch(std::string_view text, Id* out) {
        i64 i = loops_.copy(batch_, 0, short_, out);
        if (i == batch_.n) return out;
        find_places(text, i);
        while ((i = loops_.copy(batch_, i, short_, out)) < batch_.n) {
            out = encode_one(batch_.piece(text, i), batch_.keys[i], batch_.places[i], out);
            ++i;
        }
        return out;
    }

    // Sees to it that the short pieces from `i` on are at their places, as far as they fit there.
    // The place of a long one becomes that in the other cache.
    void find_places(std::string_view text, i64 i) {
        const i64 n = loops_.find_missing(batch_, i, short_, missing_);
        size_t n_new = 0;
        for (const u32 m : std::span(missing_).first(static_cast<size_t>(n))) {
            const PieceKey& key = batch_.keys[m];
            const std::string_view piece = batch_.piece(text, m);
            if (!key.is_short()) {
                batch_.places[m] = fetch_long(piece);
            } else if (!short_.bring(batch_.places[m], key) &&
                       !put_whole(piece, key, batch_.places[m]) && !is_in_long(key)) {
                new_[n_new] = key;
                new_places_[n_new++] = batch_.places[m];
            }
        }
        if constexpr (sizeof(Id) == 2) {
            if (vector_) {
                vector_->merge(std::span(new_).first(n_new), new_ids_);
                for (size_t k = 0; k < n_new; ++k) put(k, new_ids_[k].ids, new_ids_[k].count);
                return;
            }
        }
        shorts_.merge(std::span(new_).first(n_new), [&](size_t k, std::span<const i32> ids) {
            Id narrow[PieceKey::longest];
            std::copy(ids.begin(), ids.end(), narrow);
            put(k, narrow, ids.size());
        });
    }

    void put(size_t k, const Id* ids, size_t count) {
        if (count <= PieceCache<Id>::most_ids)
            short_.insert(new_places_[k], new_[k], ids, count);
        else if (may_be_in_long(new_[k]))
            put_long(new_[k].text(), ids, count);
    }

    u32 fetch_long(std::string_view piece) const {
        if (piece.size() > LongPieceCache<Id>::longest) return 0;
        const u32 place = LongPieceCache<Id>::place_of(piece);
        long_.prefetch(place);
        return place;
    }

    // Where a short piece is when its ids are too many for the other cache. Of 16-bit ids that is
    // rare but for scripts beyond ASCII and for whitespace.
    static bool may_be_in_long(const PieceKey& key) {
        return key.length() > PieceCache<Id>::most_ids &&
               (sizeof(Id) == 4 || !key.is_ascii() || key.byte(1) <= ' ');
    }
    bool is_in_long(const PieceKey& key) const {
        return may_be_in_long(key) &&
               long_.has(LongPieceCache<Id>::place_of(key.text()), key.text());
    }
    void put_long(std::string_view piece, const Id* ids, size_t count) {
        long_.insert(LongPieceCache<Id>::place_of(piece), piece, ids, count);
    }

    bool put_whole(std::string_view piece, const PieceKey& key, u32 place) {
        if (!plan_.model->has_whole_pieces()) return false;
        const i32 id = plan_.model->find_whole(piece);
        if (id < 0) return false;
        const Id narrow = static_cast<Id>(id);
        short_.insert(place, key, &narrow, 1);
        return true;
    }

    // A piece that is not at its place; a long one has its place in the other cache.
    [[gnu::noinline]] Id* encode_one(std::string_view piece, const PieceKey& key, u32 place,
                                     Id* out) {
        if (key.is_short()) {
            if (const auto* entry = short_.find(place, key))
                return std::copy_n(entry->ids, entry->count, out);
            place = LongPieceCache<Id>::place_of(piece);
        }
        if (plan_.model->has_whole_pieces()) {
            if (const i32 id = plan_.model->find_whole(piece); id >= 0) {
                *out = static_cast<Id>(id);
                return out + 1;
            }
        }
        if (piece.size() > LongPieceCache<Id>::longest) return encode_parts(piece, out);
        if (const size_t count = long_.find(place, piece, out)) return out + count;
        Id* const end = encode_parts(piece, out);
        long_.insert(place, piece, out, static_cast<size_t>(end - out));
        return end;
    }

    // Cut where no merge ever crosses, so that the parts may come out of the caches again.
    Id* encode_parts(std::string_view piece, Id* out) {
        size_t begin = 0;
        for (size_t i = 1; i <= piece.size(); ++i) {
            if (i < piece.size() &&
                plan_.model->may_join(static_cast<u8>(piece[i - 1]), static_cast<u8>(piece[i]))) {
                continue;
            }
            out = encode_part(piece.substr(begin, i - begin), out);
            begin = i;
        }
        return out;
    }

    Id* encode_part(std::string_view part, Id* out) {
        // With whole pieces the cache says what a piece becomes, not what a part of one does.
        if (part.size() > PieceKey::longest || plan_.model->has_whole_pieces())
            return merge(part, out);
        const PieceKey key = PieceKey::of(part);
        const u32 place = loops_.place_of(key);
        if (const auto* entry = short_.find(place, key))
            return std::copy_n(entry->ids, entry->count, out);
        Id* const end = merge(part, out);
        const auto count = static_cast<size_t>(end - out);
        if (count <= PieceCache<Id>::most_ids) short_.insert(place, key, out, count);
        return end;
    }

    Id* merge(std::string_view piece, Id* out) {
        pieces_.encode(piece, [&](std::span<const i32> ids) {
            for (const i32 id : ids) *out++ = static_cast<Id>(id);
        });
        return out;
    }

    BpePlan plan_;
    std::unique_ptr<Splitter> splitter_;
    PieceEncoder pieces_;
    PieceCache<Id> short_;
    LongPieceCache<Id> long_;
    PieceLoops<Id> loops_ = fastest_loops<Id>();
    ShortMerger shorts_;
    std::optional<VectorMerger> vector_;  // where there is one, instead of shorts_
    ShortIds new_ids_[PieceBatch::capacity];
    PieceBatch batch_;
    u32 missing_[PieceBatch::capacity], new_places_[PieceBatch::capacity];
    PieceKey new_[PieceBatch::capacity];
};

}  // namespace

std::unique_ptr<Encoder> make_bpe_encoder(const BpePlan& plan) {
    if (plan.model->vocab_size() <= 65536) return std::make_unique<BpeEncoder<u16>>(plan);
    return std::make_unique<BpeEncoder<i32>>(plan);
}

}  // namespace lm::text
