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

LM_VBMI2_INLINE __m256i load(const u16* from) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}
LM_VBMI2_INLINE void store(u16* to, __m256i values) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), values);
}
LM_VBMI2_INLINE __m256i all_none() {
    return _mm256_set1_epi16(-1);
}
LM_VBMI2_INLINE __m256i set(__m256i values, u32 at, __m128i value) {
    return _mm256_mask_broadcastw_epi16(values, static_cast<__mmask16>(at), value);
}

LM_VBMI2_INLINE __m128i rank_of(const NarrowPairs::Probe& probe) {
    return _mm_cvtusepi32_epi16(_mm_cvtsi32_si128(static_cast<int>(probe.rank_or_more())));
}

// The smallest, and where it stands leftmost.
struct Best {
    u32 rank, at;
};
LM_VBMI2_INLINE Best best_of(__m256i ranks) {
    const __m128i least = _mm_minpos_epu16(
        _mm_min_epu16(_mm256_castsi256_si128(ranks), _mm256_extracti128_si256(ranks, 1)));
    const u32 where = _mm256_cmpeq_epi16_mask(ranks, _mm256_broadcastw_epi16(least));
    return {static_cast<u32>(_mm_cvtsi128_si32(least)) & 0xFFFF, _tzcnt_u32(where)};
}

}  // namespace

bool VectorMerger::is_for(const BpeModel& model) {
    return may_use(Vectors::avx512) && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("bmi2") && model.narrow_ranks() != nullptr;
}

LM_VBMI2 void VectorMerger::merge(std::span<const PieceKey> pieces, ShortIds* out) {
    std::array<Lane*, n_lanes> lanes;
    size_t next = 0, n = 0;
    for (; n < n_lanes && next < pieces.size(); ++n)
        begin(*(lanes[n] = &lanes_[n]), pieces, next++);
    while (n > 0) {
        for (size_t i = 0; i < n;) {
            Lane& lane = *lanes[i];
            if (step(lane)) {
                ++i;
                continue;
            }
            const __m256i ids = load(lane.tokens + 16);
            ShortIds& result = out[lane.piece];
            store(result.ids, ids);
            result.count = static_cast<u16>(_tzcnt_u32(_mm256_cmpeq_epi16_mask(ids, all_none())));
            if (next < pieces.size()) {
                begin(lane, pieces, next++);
                ++i;
            } else {
                lanes[i] = lanes[--n];
            }
        }
    }
}

LM_VBMI2 inline void VectorMerger::begin(Lane& lane, std::span<const PieceKey> pieces,
                                         size_t piece) {
    const PieceKey& key = pieces[piece];
    const u32 n = key.length();
    const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(&key));
    const __m512i first = _mm512_cvtepu8_epi32(bytes);
    const __m512i second = _mm512_cvtepu8_epi32(_mm_srli_si128(bytes, 1));
    const __m512i pairs = _mm512_or_si512(_mm512_slli_epi32(first, 8), second);
    const __m512i nothing = _mm512_set1_epi32(-1);
    const __m512i ids = _mm512_mask_i32gather_epi32(
        nothing, static_cast<__mmask16>(_bzhi_u32(~0U, n)), first, model_->byte_ids(), 4);
    const __m512i ranks = _mm512_mask_i32gather_epi32(
        nothing, static_cast<__mmask16>(_bzhi_u32(~0U, n - 1)), pairs, model_->byte_ranks(), 4);
    store(lane.tokens, all_none());
    store(lane.tokens + 16, _mm512_cvtepi32_epi16(ids));
    store(lane.tokens + 32, all_none());
    store(lane.ranks, _mm512_cvtusepi32_epi16(ranks));
    lane.merged = 0;
    lane.before = lane.after = model_->narrow_ranks()->probe(0);
    lane.piece = piece;
    operations_ += n;
}

// Makes the next merge; false when there is none.
LM_VBMI2 inline bool VectorMerger::step(Lane& lane) {
    const NarrowPairs& table = *model_->narrow_ranks();
    __m256i ranks = set(load(lane.ranks), lane.merged >> 1, rank_of(lane.before));
    ranks = set(ranks, lane.merged, rank_of(lane.after));
    const Best best = best_of(ranks);
    operations_ += 3;
    if (best.rank == none) return false;
    const u32 here = 1U << best.at;
    const auto kept = static_cast<__mmask16>(~(here << 1));
    const auto id = static_cast<u16>(model_->result(best.rank));
    const u16* const token = lane.tokens + 16 + best.at;
    const u16 before = token[-1], after = token[2];
    store(lane.tokens + 16,
          set(_mm256_mask_compress_epi16(all_none(), kept, load(lane.tokens + 16)), here,
              _mm_cvtsi32_si128(id)));
    store(lane.ranks, _mm256_mask_compress_epi16(all_none(), kept, ranks));
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

}  // namespace lm::text

#endif
