// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/x86/pretoken_loops_aes.hpp"

#include "base/error.hpp"
#include "base/machine.hpp"

#if defined(__x86_64__)
// g++ 12 warns about code in the compiler's own headers (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
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

// Returns the hash of a key: two rounds of AES, after which every byte of the hash depends on every
// byte of the key. A round mixes within columns of four bytes, and shifts the rows by different
// numbers of columns (FIPS 197, section 5.1). The constant is the round key. Any number with enough
// set bits works.
LM_AES_INLINE u32 hash_of(__m128i key) {
    const __m128i once = _mm_aesenc_si128(key, _mm_set1_epi64x(0x1F83'D9AB'5BE0'CD19));
    return static_cast<u32>(_mm_cvtsi128_si32(_mm_aesenc_si128(once, key)));
}

LM_AES_INLINE bool differ(const PretokenKey& a, const PretokenKey& b) {
    return _mm_movemask_epi8(_mm_cmpeq_epi8(register_of(&a), register_of(&b))) != 0xFFFF;
}

template <typename Id>
struct Aes {
    using Cache = PretokenCache<Id>;
    using Batch = PretokenBatch<Id>;

    LM_AES static const typename Cache::Entry* place_of(const PretokenKey& key,
                                                        const Cache& cache) {
        return cache.place_of(hash_of(register_of(&key)));
    }

    LM_AES static void load(const char* text, i64 i, i64 n, Batch& batch, const Cache& cache) {
        u32 begin = batch.begin_of(i);
        for (; i < n; ++i) {
            const u32 end = batch.ends[i];
            const u32 length = std::min(end - begin, 16U);
            const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + begin));
            const __m128i key =
                _mm_or_si128(_mm_and_si128(bytes, register_of(&detail::key_masks.bytes[length])),
                             register_of(&detail::key_masks.tag[length]));
            _mm_store_si128(reinterpret_cast<__m128i*>(&batch.keys[i]), key);
            batch.at[i] = cache.place_of(hash_of(key));
            __builtin_prefetch(batch.at[i]);
            if (length == 16) batch.long_pretokens[batch.n_long++] = static_cast<u32>(i);
            begin = end;
        }
    }

    LM_AES static i64 find_missing(const Batch& batch, i64 i, i64 n, u32* missing) {
        i64 found = 0;
        for (; i < n; ++i) {
            // Always writes the index, but counts it only if the keys differ. So the loop needs no
            // branch.
            missing[found] = static_cast<u32>(i);
            found += differ(batch.at[i]->key, batch.keys[i]) ? 1 : 0;
        }
        return found;
    }
};

#define LM_VAES __attribute__((target("avx2,aes,bmi,bmi2,popcnt,avx512f,avx512bw,avx512vl,vaes")))
#define LM_VAES_INLINE                                                                \
    __attribute__((target("avx2,aes,bmi,bmi2,popcnt,avx512f,avx512bw,avx512vl,vaes"), \
                   always_inline)) inline

// Loads 16 bytes of a text at each of four offsets.
LM_VAES_INLINE __m512i four_of(const char* text, u32 a, u32 b, u32 c, u32 d) {
    const auto at = [&](u32 place) { return reinterpret_cast<const __m128i*>(text + place); };
    __m512i four = _mm512_castsi128_si512(_mm_loadu_si128(at(a)));
    four = _mm512_inserti32x4(four, _mm_loadu_si128(at(b)), 1);
    four = _mm512_inserti32x4(four, _mm_loadu_si128(at(c)), 2);
    return _mm512_inserti32x4(four, _mm_loadu_si128(at(d)), 3);
}

// Returns the keys of four pre-tokens. Clears the bytes after the end of each, and sets the last
// byte to the length, or to 0xFF for 16 bytes and more. `lengths` has four numbers of at most 16.
// lane[i] is the pre-token that the 32-bit word i belongs to, so permutexvar repeats each number
// four times.
LM_VAES_INLINE __m512i keys_of(__m512i bytes, __m128i lengths) {
    const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i position =
        _mm512_broadcast_i32x4(_mm_set_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const __m128i repeated = _mm_mullo_epi32(lengths, _mm_set1_epi32(0x01010101));
    const __mmask64 inside = _mm512_cmplt_epu8_mask(
        position, _mm512_permutexvar_epi32(lane, _mm512_castsi128_si512(repeated)));
    const __m128i is_long = _mm_cmpeq_epi32(lengths, _mm_set1_epi32(16));
    const __m128i tags = _mm_slli_epi32(_mm_or_si128(lengths, is_long), 24);
    const __m512i tag = _mm512_maskz_permutexvar_epi32(0x8888, lane, _mm512_castsi128_si512(tags));
    return _mm512_or_si512(_mm512_maskz_mov_epi8(inside, bytes), tag);
}

template <typename Id>
struct Wide {
    using Cache = PretokenCache<Id>;
    using Batch = PretokenBatch<Id>;

    // Loads four pre-tokens at a time. Aes::load, with the same hash, loads the last one to three.
    LM_VAES static void load(const char* text, i64 i, i64 n, Batch& batch, const Cache& cache) {
        const __m512i constant = _mm512_set1_epi64(0x1F83'D9AB'5BE0'CD19);
        const __m256i entries = _mm256_set1_epi64x(reinterpret_cast<long long>(cache.entries()));
        const __m128i place_bits = _mm_set1_epi32(static_cast<int>(cache.place_bits()));
        const u32* ends = batch.ends;
        __m128i ends_before = _mm_set1_epi32(static_cast<int>(batch.begin_of(i)));
        for (; i + 4 <= n; i += 4) {
            const __m128i four_ends = _mm_loadu_si128(reinterpret_cast<const __m128i*>(ends + i));
            // Each pre-token begins where the previous one ends.
            const __m128i begins = _mm_alignr_epi8(four_ends, ends_before, 12);
            const u32 begin = static_cast<u32>(_mm_cvtsi128_si32(begins));
            ends_before = four_ends;
            const __m512i bytes = four_of(text, begin, ends[i], ends[i + 1], ends[i + 2]);
            const __m128i lengths =
                _mm_min_epu32(_mm_sub_epi32(four_ends, begins), _mm_set1_epi32(16));
            const __m512i keys = keys_of(bytes, lengths);
            _mm512_storeu_si512(&batch.keys[i], keys);
            const __m512i hash = _mm512_aesenc_epi128(_mm512_aesenc_epi128(keys, constant), keys);
            const __m128i first_words =
                _mm512_castsi512_si128(_mm512_maskz_compress_epi32(0x1111, hash));
            // The shift by 5 is the product with 32, the bytes of an entry.
            const __m256i places = _mm256_cvtepu32_epi64(_mm_and_si128(first_words, place_bits));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(batch.at + i),
                                _mm256_add_epi64(entries, _mm256_slli_epi64(places, 5)));
            for (i64 k = i; k < i + 4; ++k) __builtin_prefetch(batch.at[k]);
            note_long(_mm_cmpeq_epi32_mask(lengths, _mm_set1_epi32(16)), i, batch);
        }
        Aes<Id>::load(text, i, n, batch, cache);
    }

    LM_VAES_INLINE static void note_long(u32 which, i64 i, Batch& batch) {
        for (; which != 0; which &= which - 1)
            batch.long_pretokens[batch.n_long++] = static_cast<u32>(i) + _tzcnt_u32(which);
    }

    // Compares sixteen pre-tokens at a time. The last of them may be after `n`: `at` and `keys`
    // have `slack` valid entries there, and a mask removes their results. The compressed store
    // writes 16 indices, and `found` grows only by the number found.
    LM_VAES static i64 find_missing(const Batch& batch, i64 i, i64 n, u32* missing) {
        const __m512i steps =
            _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        i64 found = 0;
        for (; i < n; i += 16) {
            u32 differ = 0;  // two bits for each pre-token, one for each half of the key
            for (i64 k = 0; k < 16; k += 4) differ |= compare_four(batch, i + k) << (2 * k);
            const u32 which = _pext_u32(differ | differ >> 1, 0x5555'5555) &
                              _bzhi_u32(0xFFFF, static_cast<u32>(std::min<i64>(n - i, 16)));
            const __m512i pretokens =
                _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(i)), steps);
            _mm512_storeu_si512(missing + found, _mm512_maskz_compress_epi32(
                                                     static_cast<__mmask16>(which), pretokens));
            found += _mm_popcnt_u32(which);
        }
        return found;
    }

    LM_VAES_INLINE static u32 compare_four(const Batch& batch, i64 i) {
        __m512i four = _mm512_castsi128_si512(register_of(&batch.at[i]->key));
        four = _mm512_inserti32x4(four, register_of(&batch.at[i + 1]->key), 1);
        four = _mm512_inserti32x4(four, register_of(&batch.at[i + 2]->key), 2);
        four = _mm512_inserti32x4(four, register_of(&batch.at[i + 3]->key), 3);
        return _mm512_cmpneq_epi64_mask(four, _mm512_loadu_si512(&batch.keys[i]));
    }
};

// These two functions read CPUID (Intel SDM, volume 2), because __builtin_cpu_supports of clang 14
// supports neither AES nor VAES.
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
    return may_use(Vectors::avx2) && __builtin_cpu_supports("avx2") && knows_aes();
}

bool has_wide_aes() {
    return has_aes_loops() && may_use(Vectors::avx512) && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && knows_vaes() && __builtin_cpu_supports("bmi2");
}

template <typename Id>
PretokenLoops<Id> aes_loops(bool wide) {
    using Loops = Aes<Id>;
    if (wide) return {Loops::place_of, Wide<Id>::load, Wide<Id>::find_missing};
    return {Loops::place_of, Loops::load, Loops::find_missing};
}
template PretokenLoops<u16> aes_loops(bool);
template PretokenLoops<i32> aes_loops(bool);

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
PretokenLoops<Id> aes_loops(bool) {
    bug(__FILE__, __LINE__, "expected an x86-64 machine with AES");
}
template PretokenLoops<u16> aes_loops(bool);
template PretokenLoops<i32> aes_loops(bool);

}  // namespace lm::text

#endif
