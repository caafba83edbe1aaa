// SPDX-License-Identifier: Apache-2.0
// A key is one register here, and its hash two rounds of AES, which mix all of its bytes into each.
#include "base/error.hpp"
#include "text/piece_loops.hpp"

#if defined(__x86_64__)
// g++ 12 warns of its own header (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <cpuid.h>
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
        load_from(0, text, n, batch, cache);
    }

    LM_AES static void load_from(i64 i, const char* text, i64 n, PieceBatch& batch,
                                 const Cache& cache) {
        const auto* entries = cache.entries();
        u32 at = batch.begin_of(i);
        for (; i < n; ++i) {
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

#define LM_VAES __attribute__((target("avx2,aes,avx512f,avx512bw,avx512vl,vaes")))
#define LM_VAES_INLINE \
    __attribute__((target("avx2,aes,avx512f,avx512bw,avx512vl,vaes"), always_inline)) inline

// The 16 bytes at each of four places of a text.
LM_VAES_INLINE __m512i four_of(const char* text, u32 a, u32 b, u32 c, u32 d) {
    const auto at = [&](u32 place) { return reinterpret_cast<const __m128i*>(text + place); };
    __m512i four = _mm512_castsi128_si512(_mm_loadu_si128(at(a)));
    four = _mm512_inserti32x4(four, _mm_loadu_si128(at(b)), 1);
    four = _mm512_inserti32x4(four, _mm_loadu_si128(at(c)), 2);
    return _mm512_inserti32x4(four, _mm_loadu_si128(at(d)), 3);
}

// Their keys: bytes behind the end cleared, the length (0xFF for 16 and more) as the last one.
LM_VAES_INLINE __m512i keys_of(__m512i bytes, __m128i lengths) {
    const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i position =
        _mm512_broadcast_i32x4(_mm_set_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const __m128i least = _mm_min_epu32(lengths, _mm_set1_epi32(16));
    const __m128i repeated = _mm_mullo_epi32(least, _mm_set1_epi32(0x01010101));
    const __mmask64 inside = _mm512_cmplt_epu8_mask(
        position, _mm512_permutexvar_epi32(lane, _mm512_castsi128_si512(repeated)));
    const __m128i is_long = _mm_cmpeq_epi32(least, _mm_set1_epi32(16));
    const __m128i tags = _mm_slli_epi32(_mm_or_si128(least, is_long), 24);
    const __m512i tag = _mm512_maskz_permutexvar_epi32(0x8888, lane, _mm512_castsi128_si512(tags));
    return _mm512_or_si512(_mm512_maskz_mov_epi8(inside, bytes), tag);
}

// Aes::load for four pieces at a time.
template <typename Id>
LM_VAES void load_fours(const char* text, i64 n, PieceBatch& batch, const PieceCache<Id>& cache) {
    const auto* entries = cache.entries();
    const __m512i constant = _mm512_set1_epi64(0x1F83'D9AB'5BE0'CD19);
    const __m128i place_bits = _mm_set1_epi32(PieceCache<Id>::n_places - 1);
    const u32* ends = batch.ends;
    __m128i ends_before = _mm_set1_epi32(static_cast<int>(batch.begin));
    i64 i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m128i four_ends = register_of(ends + i);
        const __m128i begins = _mm_alignr_epi8(four_ends, ends_before, 12);
        ends_before = four_ends;
        const __m512i bytes = four_of(text, batch.begin_of(i), ends[i], ends[i + 1], ends[i + 2]);
        const __m512i keys = keys_of(bytes, _mm_sub_epi32(four_ends, begins));
        _mm512_store_si512(&batch.keys[i], keys);
        const __m512i hash = _mm512_aesenc_epi128(_mm512_aesenc_epi128(keys, constant), keys);
        const __m128i first_words =
            _mm512_castsi512_si128(_mm512_maskz_compress_epi32(0x1111, hash));
        _mm_store_si128(reinterpret_cast<__m128i*>(batch.places + i),
                        _mm_and_si128(first_words, place_bits));
        for (i64 k = i; k < i + 4; ++k) __builtin_prefetch(entries + batch.places[k]);
    }
    Aes<Id>::load_from(i, text, n, batch, cache);
}

// What clang 14 cannot ask __builtin_cpu_supports for (Intel's manual, volume 2, CPUID).
bool knows_aes() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_AES) != 0;
}

bool knows_vaes() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & bit_VAES) != 0;
}

}  // namespace

bool has_aes_loops() {
    return __builtin_cpu_supports("avx2") && knows_aes();
}

bool has_wide_aes() {
    return has_aes_loops() && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && knows_vaes();
}

template <typename Id>
PieceLoops<Id> aes_loops(bool wide) {
    using Loops = Aes<Id>;
    return {Loops::place_of, wide ? load_fours<Id> : Loops::load, Loops::copy, Loops::find_missing};
}
template PieceLoops<u16> aes_loops(bool);
template PieceLoops<i32> aes_loops(bool);

}  // namespace lm::text

#else

namespace lm::text {

bool has_aes_loops() {
    return false;
}
bool has_wide_aes() {
    return false;
}
template <typename Id>
PieceLoops<Id> aes_loops(bool) {
    bug(__FILE__, __LINE__, "no AES here");
}
template PieceLoops<u16> aes_loops(bool);
template PieceLoops<i32> aes_loops(bool);

}  // namespace lm::text

#endif
