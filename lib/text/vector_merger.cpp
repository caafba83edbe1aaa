// SPDX-License-Identifier: Apache-2.0
#include "text/vector_merger.hpp"

#include "base/error.hpp"
#include "base/processor.hpp"

#if defined(__x86_64__)
// g++ 12 warns of its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#define LM_VBMI2 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt")))
#define LM_VBMI2_INLINE                                                             \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt"), \
                   always_inline)) inline

namespace lm::text {
namespace {

constexpr u16 none = NarrowPairs::none;  // no token, no rank

// A register of `width` numbers of 16 bits.
template <size_t width>
struct Words;

template <>
struct Words<16> {
    using Register = __m256i;
    LM_VBMI2_INLINE static Register load(const u16* from) {
        return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
    }
    LM_VBMI2_INLINE static void store(u16* to, Register values) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), values);
    }
    LM_VBMI2_INLINE static Register all_none() { return _mm256_set1_epi16(-1); }
    LM_VBMI2_INLINE static Register set(Register values, u32 at, __m128i value) {
        return _mm256_mask_broadcastw_epi16(values, static_cast<__mmask16>(at), value);
    }
    // The others move to the left.
    LM_VBMI2_INLINE static Register keep(Register values, u32 which) {
        return _mm256_mask_compress_epi16(all_none(), static_cast<__mmask16>(which), values);
    }
    LM_VBMI2_INLINE static u32 equal(Register values, __m128i value) {
        return _mm256_cmpeq_epi16_mask(values, _mm256_broadcastw_epi16(value));
    }
    LM_VBMI2_INLINE static __m128i least_of(Register values) {
        return _mm_minpos_epu16(
            _mm_min_epu16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1)));
    }
};

template <>
struct Words<32> {
    using Register = __m512i;
    LM_VBMI2_INLINE static Register load(const u16* from) { return _mm512_load_si512(from); }
    LM_VBMI2_INLINE static void store(u16* to, Register values) { _mm512_store_si512(to, values); }
    LM_VBMI2_INLINE static Register all_none() { return _mm512_set1_epi16(-1); }
    LM_VBMI2_INLINE static Register set(Register values, u32 at, __m128i value) {
        return _mm512_mask_broadcastw_epi16(values, at, value);
    }
    LM_VBMI2_INLINE static Register keep(Register values, u32 which) {
        return _mm512_mask_compress_epi16(all_none(), which, values);
    }
    LM_VBMI2_INLINE static u32 equal(Register values, __m128i value) {
        return _mm512_cmpeq_epi16_mask(values, _mm512_broadcastw_epi16(value));
    }
    LM_VBMI2_INLINE static __m128i least_of(Register values) {
        return Words<16>::least_of(
            _mm256_min_epu16(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1)));
    }
};

LM_VBMI2_INLINE __m128i rank_of(const NarrowPairs::Probe& probe) {
    return _mm_cvtusepi32_epi16(_mm_cvtsi32_si128(static_cast<int>(probe.rank_or_more())));
}

// The smallest, and where it stands leftmost.
struct Best {
    u32 rank, at;
};
template <size_t width>
LM_VBMI2_INLINE Best best_of(typename Words<width>::Register ranks) {
    const __m128i least = Words<width>::least_of(ranks);
    return {static_cast<u32>(_mm_cvtsi128_si32(least)) & 0xFFFF,
            _tzcnt_u32(Words<width>::equal(ranks, least))};
}

// Sixteen bytes and the sixteen that begin with the second of them.
struct Bytes {
    __m128i first, second;
};
LM_VBMI2_INLINE Bytes bytes_of(const PieceKey& key, size_t) {
    const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(&key));
    return {bytes, _mm_srli_si128(bytes, 1)};
}
LM_VBMI2_INLINE Bytes bytes_of(std::string_view piece, size_t begin) {
    const char* const at = piece.data() + begin;
    return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)),
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 1))};
}

LM_VBMI2_INLINE u32 size_of(const PieceKey& key) {
    return key.length();
}
LM_VBMI2_INLINE u32 size_of(std::string_view piece) {
    return static_cast<u32>(piece.size());
}

}  // namespace

bool VectorMerger::is_for(const BpeModel& model) {
    return may_use(Vectors::avx512) && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("bmi2") && model.narrow_ranks() != nullptr;
}

template <size_t width, typename Piece, typename Ids>
LM_VBMI2_INLINE void VectorMerger::merge_all(std::span<const Piece> pieces, Ids* out,
                                             std::array<Lane<width>, n_lanes>& own) {
    std::array<Lane<width>*, n_lanes> lanes;
    size_t next = 0, n = 0;
    for (; n < n_lanes && next < pieces.size(); ++n) begin(*(lanes[n] = &own[n]), pieces, next++);
    while (n > 0) {
        for (size_t i = 0; i < n;) {
            Lane<width>& lane = *lanes[i];
            if (step(lane)) {
                ++i;
                continue;
            }
            const auto ids = Words<width>::load(lane.tokens + width);
            Ids& result = out[lane.piece];
            Words<width>::store(result.ids, ids);
            const u64 behind = Words<width>::equal(ids, _mm_set1_epi16(-1)) | u64{1} << width;
            result.count = static_cast<decltype(result.count)>(_tzcnt_u64(behind));
            if (next < pieces.size()) {
                begin(lane, pieces, next++);
                ++i;
            } else {
                lanes[i] = lanes[--n];
            }
        }
    }
}

LM_VBMI2 void VectorMerger::merge(std::span<const PieceKey> pieces, ShortIds* out) {
    merge_all(pieces, out, lanes_);
}

LM_VBMI2 void VectorMerger::merge(std::span<const std::string_view> pieces, WideIds* out) {
    merge_all(pieces, out, wide_lanes_);
}

template <size_t width, typename Piece>
LM_VBMI2_INLINE void VectorMerger::begin(Lane<width>& lane, std::span<const Piece> pieces,
                                         size_t piece) {
    using W = Words<width>;
    const u32 n = size_of(pieces[piece]);
    const __m512i nothing = _mm512_set1_epi32(-1);
    for (u32 i = 0; i < width; i += 16) {
        const Bytes bytes = bytes_of(pieces[piece], i);
        const __m512i first = _mm512_cvtepu8_epi32(bytes.first);
        const __m512i pairs =
            _mm512_or_si512(_mm512_slli_epi32(first, 8), _mm512_cvtepu8_epi32(bytes.second));
        const __m512i ids = _mm512_mask_i32gather_epi32(
            nothing, static_cast<__mmask16>(_bzhi_u32(~0U, n) >> i), first, model_->byte_ids(), 4);
        const __m512i ranks =
            _mm512_mask_i32gather_epi32(nothing, static_cast<__mmask16>(_bzhi_u32(~0U, n - 1) >> i),
                                        pairs, model_->byte_ranks(), 4);
        Words<16>::store(lane.tokens + width + i, _mm512_cvtepi32_epi16(ids));
        Words<16>::store(lane.ranks + i, _mm512_cvtusepi32_epi16(ranks));
    }
    W::store(lane.tokens, W::all_none());
    W::store(lane.tokens + 2 * width, W::all_none());
    lane.merged = 0;
    lane.before = lane.after = model_->narrow_ranks()->probe(0);
    lane.piece = piece;
    operations_ += n;
}

// Makes the next merge; false when there is none.
template <size_t width>
LM_VBMI2_INLINE bool VectorMerger::step(Lane<width>& lane) {
    using W = Words<width>;
    const NarrowPairs& table = *model_->narrow_ranks();
    auto ranks = W::set(W::load(lane.ranks), lane.merged >> 1, rank_of(lane.before));
    ranks = W::set(ranks, lane.merged, rank_of(lane.after));
    const Best best = best_of<width>(ranks);
    operations_ += 3;
    if (best.rank == none) return false;
    const u32 here = 1U << best.at;
    const u32 kept = ~(here << 1);
    const auto id = static_cast<u16>(model_->result(best.rank));
    u16* const tokens = lane.tokens + width;
    const u16 before = tokens[i64{best.at} - 1], after = tokens[best.at + 2];
    W::store(tokens, W::set(W::keep(W::load(tokens), kept), here, _mm_cvtsi32_si128(id)));
    W::store(lane.ranks, W::keep(ranks, kept));
    lane.merged = here;
    lane.before = table.probe(NarrowPairs::key_of(before, id));
    lane.after = table.probe(NarrowPairs::key_of(id, after));
    lane.before.prefetch();
    lane.after.prefetch();
    return true;
}

}  // namespace lm::text

#else

namespace lm::text {

bool VectorMerger::is_for(const BpeModel&) {
    return false;
}
void VectorMerger::merge(std::span<const PieceKey>, ShortIds*) {
    bug(__FILE__, __LINE__, "no AVX-512 here");
}
void VectorMerger::merge(std::span<const std::string_view>, WideIds*) {
    bug(__FILE__, __LINE__, "no AVX-512 here");
}

}  // namespace lm::text

#endif
