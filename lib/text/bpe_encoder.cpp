// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_encoder.hpp"

#include <cstring>

#include "base/error.hpp"
#include "text/piece_cache.hpp"

namespace lm::text {
namespace {

constexpr i64 batch = 512;  // pieces whose cache lines are in flight at once

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

    i64 encode_text(std::string_view text, Id* out) {
        if (plan_.special == nullptr || plan_.special->empty())
            return encode_plain(text, out) - out;
        Id* at = out;
        size_t from = 0;
        for (;;) {
            const SpecialMatcher::Match match = plan_.special->find(text, from);
            at = encode_plain(text.substr(from, match.begin - from), at);
            if (match.token == nullptr) return at - out;
            *at++ = static_cast<Id>(match.token->id);
            from = match.begin + match.token->content.size();
        }
    }

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
        u32 at = begin;
        for (i64 i = 0; i < n; ++i) {
            keys_[i] = PieceKey::of(text, at, ends_[i] - at);
            cache_.prefetch(keys_[i]);
            at = ends_[i];
        }
        at = begin;
        for (i64 i = 0; i < n; ++i) {
            if (const int count = cache_.find(keys_[i], out)) {
                out += count;
            } else {
                out = encode_new(text.substr(at, ends_[i] - at), keys_[i], out);
            }
            at = ends_[i];
        }
        return out;
    }

    Id* encode_new(std::string_view piece, const PieceKey& key, Id* out) {
        const std::span<const i32> ids = pieces_.encode(piece);
        for (size_t i = 0; i < ids.size(); ++i) out[i] = static_cast<Id>(ids[i]);
        if (!key.too_long()) cache_.insert(key, out, static_cast<int>(ids.size()));
        return out + ids.size();
    }

    BpePlan plan_;
    std::unique_ptr<Splitter> splitter_;
    PieceEncoder pieces_;
    PieceCache<Id> cache_;
    u32 ends_[batch];
    PieceKey keys_[batch];
};

}  // namespace

std::unique_ptr<Encoder> make_bpe_encoder(const BpePlan& plan) {
    if (plan.model->vocab_size() <= 65536) return std::make_unique<BpeEncoder<u16>>(plan);
    return std::make_unique<BpeEncoder<i32>>(plan);
}

}  // namespace lm::text
