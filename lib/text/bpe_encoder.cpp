// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_encoder.hpp"

#include <cstring>

#include "base/error.hpp"
#include "text/piece_cache.hpp"

namespace lm::text {
namespace {

constexpr i64 batch = 256;  // pieces at a time: their cache lines fit the first-level cache

// Id is the type the cache stores and the output has: u16 when the vocabulary allows.
template <typename Id>
class BpeEncoder : public Encoder {
  public:
    explicit BpeEncoder(const BpePlan& plan)
        : plan_(plan), splitter_(make_splitter(plan.rule)), pieces_(*plan.model) {}

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

    u64 operations() const override { return pieces_.operations(); }

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
        u32 begin = 0;
        while (const i64 n = splitter_->next(ends_, batch)) {
            out = encode_pieces(text, begin, n, out);
            begin = ends_[n - 1];
        }
        return out;
    }

    Id* encode_pieces(std::string_view text, u32 begin, i64 n, Id* out) {
        load_keys(text, begin, n);
        return look_up(text.data(), begin, n, out);
    }

    [[gnu::noinline]] void load_keys(std::string_view text, u32 begin, i64 n) {
        // Near the end of the text 16 bytes may not be readable.
        i64 n_loaded = n;
        while (n_loaded > 0 && begin_of(n_loaded - 1, begin) + 16 > text.size()) --n_loaded;
        u32 at = begin;
        for (i64 i = 0; i < n_loaded; ++i) {
            keys_[i] = PieceKey::load(text.data() + at, ends_[i] - at);
            slots_[i] = PieceCache<Id>::slot_of(keys_[i]);
            short_.prefetch(slots_[i]);
            at = ends_[i];
        }
        for (i64 i = n_loaded; i < n; ++i) {
            keys_[i] = PieceKey::of(text.substr(at, ends_[i] - at));
            slots_[i] = PieceCache<Id>::slot_of(keys_[i]);
            at = ends_[i];
        }
    }

    [[gnu::noinline]] Id* look_up(const char* text, u32 begin, i64 n, Id* out) {
        for (i64 i = 0; i < n; ++i) {
            const int count = short_.find(slots_[i], keys_[i], out);
            out += count;
            if (count != 0) [[likely]]
                continue;
            const u32 from = begin_of(i, begin);
            out = encode_new(text + from, ends_[i] - from, out);
        }
        return out;
    }

    u32 begin_of(i64 i, u32 begin) const { return i == 0 ? begin : ends_[i - 1]; }

    // A piece that the cache of short ones does not have.
    [[gnu::noinline]] Id* encode_new(const char* begin, size_t size, Id* out) {
        const std::string_view piece(begin, size);
        if (plan_.model->has_whole_pieces()) {
            if (const i32 id = plan_.model->find_whole(piece); id >= 0)
                return put_whole(piece, id, out);
        }
        if (piece.size() > LongPieceCache<Id>::longest) return encode_parts(piece, out);
        // A short piece lies there only if its ids were too many for the other cache; rare but for
        // scripts beyond ASCII.
        const bool is_short = piece.size() <= PieceKey::longest;
        if (!is_short || may_lie_in_long(piece)) {
            if (const size_t count = long_.find(piece, out)) return out + count;
        }
        if (is_short) return encode_short(piece, out);
        Id* const end = encode_parts(piece, out);
        long_.insert(piece, out, static_cast<size_t>(end - out));
        return end;
    }

    static bool may_lie_in_long(std::string_view piece) {
        return piece.size() > PieceCache<Id>::most_ids && !PieceKey::of(piece).is_ascii();
    }

    Id* put_whole(std::string_view piece, i32 id, Id* out) {
        *out = static_cast<Id>(id);
        if (piece.size() <= PieceKey::longest) {
            const PieceKey key = PieceKey::of(piece);
            short_.insert(PieceCache<Id>::slot_of(key), key, out, 1);
        }
        return out + 1;
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
        if (const int count = short_.find(PieceCache<Id>::slot_of(key), key, out))
            return out + count;
        return encode_short(part, out);
    }

    Id* encode_short(std::string_view piece, Id* out) {
        Id* const end = merge(piece, out);
        const PieceKey key = PieceKey::of(piece);
        const auto count = static_cast<size_t>(end - out);
        if (count <= PieceCache<Id>::most_ids) {
            short_.insert(PieceCache<Id>::slot_of(key), key, out, count);
        } else if (may_lie_in_long(piece)) {
            long_.insert(piece, out, count);
        }
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
    u32 ends_[batch];
    u32 slots_[batch];
    PieceKey keys_[batch];
};

}  // namespace

std::unique_ptr<Encoder> make_bpe_encoder(const BpePlan& plan) {
    if (plan.model->vocab_size() <= 65536) return std::make_unique<BpeEncoder<u16>>(plan);
    return std::make_unique<BpeEncoder<i32>>(plan);
}

}  // namespace lm::text
