// SPDX-License-Identifier: Apache-2.0
// A key is one register here, and its hash two rounds of AES, which mix all of its bytes into each.
#include "base/error.hpp"
#include "text/piece_loops.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#define LM_AES __attribute__((target("avx2,aes")))
#define LM_AES_INLINE __attribute__((target("avx2,aes"), always_inline)) inline

namespace lm::text {
namespace {

LM_AES_INLINE __m128i register_of(const void* bytes) {
    return _mm_load_si128(static_cast<const __m128i*>(bytes));
}

LM_AES_INLINE u32 hash_of(__m128i key) {
    const __m128i once = _mm_aesenc_si128(key, _mm_set1_epi64x(0x1F83'D9AB'5BE0'CD19));
    return static_cast<u32>(_mm_cvtsi128_si32(_mm_aesenc_si128(once, key)));
}

LM_AES_INLINE bool differ(const PieceKey& a, const PieceKey& b) {
    return _mm_movemask_epi8(_mm_cmpeq_epi8(register_of(&a), register_of(&b))) != 0xFFFF;
}

template <typename Id>
struct Aes {
    using Cache = PieceCache<Id>;

    LM_AES static u32 place_of(const PieceKey& key) {
        return hash_of(register_of(&key)) % Cache::n_places;
    }

    LM_AES static void load(const char* text, i64 n, PieceBatch& batch, const Cache& cache) {
        const auto* entries = cache.entries();
        u32 at = batch.begin;
        for (i64 i = 0; i < n; ++i) {
            const u32 end = batch.ends[i];
            const u32 length = std::min(end - at, 16U);
            const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at));
            const __m128i key =
                _mm_or_si128(_mm_and_si128(bytes, register_of(&detail::key_masks.bytes[length])),
                             register_of(&detail::key_masks.tag[length]));
            _mm_store_si128(reinterpret_cast<__m128i*>(&batch.keys[i]), key);
            const u32 place = hash_of(key) % Cache::n_places;
            batch.places[i] = place;
            __builtin_prefetch(entries + place);
            at = end;
        }
    }

    LM_AES static i64 copy(const PieceBatch& batch, i64 i, const Cache& cache, Id*& out) {
        const auto* entries = cache.entries();
        Id* to = out;
        for (; i < batch.n; ++i) {
            const auto& entry = entries[batch.places[i]];
            if (differ(entry.key, batch.keys[i])) break;
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to), register_of(entry.ids));
            to += entry.count;
        }
        out = to;
        return i;
    }

    LM_AES static i64 find_missing(const PieceBatch& batch, i64 i, const Cache& cache,
                                   u32* missing) {
        const auto* entries = cache.entries();
        i64 n = 0;
        for (; i < batch.n; ++i) {
            missing[n] = static_cast<u32>(i);
            n += differ(entries[batch.places[i]].key, batch.keys[i]) ? 1 : 0;
        }
        return n;
    }
};

}  // namespace

bool has_aes_loops() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("aes");
}

template <typename Id>
PieceLoops<Id> aes_loops() {
    using Loops = Aes<Id>;
    return {Loops::place_of, Loops::load, Loops::copy, Loops::find_missing};
}
template PieceLoops<u16> aes_loops();
template PieceLoops<i32> aes_loops();

}  // namespace lm::text

#else

namespace lm::text {

bool has_aes_loops() {
    return false;
}
template <typename Id>
PieceLoops<Id> aes_loops() {
    bug(__FILE__, __LINE__, "no AES here");
}
template PieceLoops<u16> aes_loops();
template PieceLoops<i32> aes_loops();

}  // namespace lm::text

#endif
