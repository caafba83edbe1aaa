// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/x86/vector_merger.hpp"

#include "base/machine.hpp"

#if defined(__x86_64__)
// g++ 12 warns about code in the compiler's own headers (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <array>

#define LM_VBMI2 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt")))
#define LM_VBMI2_INLINE                                                             \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt"), \
                   always_inline)) inline

namespace lm::text {
namespace {

// Arrays of 16, 32 or 64 numbers of 16 or 32 bits in vector registers, and the operations on them
// that the merger needs. For AVX-512 with VBMI2.

// Operations on `width` numbers in registers. Bit i of a mask stands for number i.
//   set: replaces the numbers at the bits `at` by `value`.
//   remove: removes the number at the single bit `which`; the numbers after it move left, and
//   `last` becomes the last number.
//   equal: returns the bits of the numbers that equal `value`.
//   least_of: returns the minimum, in the lowest element of the result.
template <typename Number, size_t width>
struct Words;

template <>
struct Words<u16, 16> {
    using Register = __m256i;
    LM_VBMI2_INLINE static Register load(const u16* from) {
        return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
    }
    LM_VBMI2_INLINE static void store(u16* to, Register values) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), values);
    }
    LM_VBMI2_INLINE static void store_ids(i32* to, Register values) {
        _mm512_store_si512(to, _mm512_cvtepu16_epi32(values));
    }
    LM_VBMI2_INLINE static Register set(Register values, u64 at, __m128i value) {
        return _mm256_mask_broadcastw_epi16(values, static_cast<__mmask16>(at), value);
    }
    LM_VBMI2_INLINE static Register remove(Register values, u64 which, u32 last) {
        // The compression moves the other numbers to the left. The one free element at the right
        // end gets `last`.
        return _mm256_mask_compress_epi16(_mm256_set1_epi16(static_cast<short>(last)),
                                          static_cast<__mmask16>(~which), values);
    }
    LM_VBMI2_INLINE static u64 equal(Register values, __m128i value) {
        return _mm256_cmpeq_epi16_mask(values, _mm256_broadcastw_epi16(value));
    }
    LM_VBMI2_INLINE static __m128i least_of(Register values) {
        // _mm_minpos_epu16 puts the minimum of 8 numbers into the lowest element.
        return _mm_minpos_epu16(
            _mm_min_epu16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1)));
    }
};

// The operations of Words on the numbers in one register of 64 bytes.
template <typename Number>
struct Whole;

template <>
struct Whole<u16> {
    LM_VBMI2_INLINE static __m512i all(u32 value) {
        return _mm512_set1_epi16(static_cast<short>(value));
    }
    LM_VBMI2_INLINE static __m512i set(__m512i values, u64 at, __m128i value) {
        return _mm512_mask_broadcastw_epi16(values, static_cast<__mmask32>(at), value);
    }
    // Replaces each number at the bits `which` by its right neighbour. The right neighbour of the
    // last number is the first number of `following`. AVX-512 has no alignr of 16-bit elements
    // across lanes, so this function uses alignr of 32-bit elements and two shifts within these
    // elements.
    LM_VBMI2_INLINE static __m512i shift(__m512i values, u64 which, __m512i following) {
        const __m512i joined =
            _mm512_alignr_epi32(following, values, 1);  // the numbers two positions to the right
        const __m512i shifted =
            _mm512_or_si512(_mm512_srli_epi32(values, 16), _mm512_slli_epi32(joined, 16));
        return _mm512_mask_mov_epi16(values, static_cast<__mmask32>(which), shifted);
    }
    LM_VBMI2_INLINE static u64 equal(__m512i values, __m128i value) {
        return _mm512_cmpeq_epi16_mask(values, _mm512_broadcastw_epi16(value));
    }
    LM_VBMI2_INLINE static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu16(a, b); }
    LM_VBMI2_INLINE static __m128i least_of(__m512i values) {
        return Words<u16, 16>::least_of(
            _mm256_min_epu16(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1)));
    }
    LM_VBMI2_INLINE static void store_ids(i32* to, __m512i values) {
        _mm512_store_si512(to, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(values)));
        _mm512_store_si512(to + 16, _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(values, 1)));
    }
};

template <>
struct Whole<u32> {
    LM_VBMI2_INLINE static __m512i all(u32 value) {
        return _mm512_set1_epi32(static_cast<int>(value));
    }
    LM_VBMI2_INLINE static __m512i set(__m512i values, u64 at, __m128i value) {
        return _mm512_mask_broadcastd_epi32(values, static_cast<__mmask16>(at), value);
    }
    LM_VBMI2_INLINE static __m512i shift(__m512i values, u64 which, __m512i following) {
        return _mm512_mask_alignr_epi32(values, static_cast<__mmask16>(which), following, values,
                                        1);
    }
    LM_VBMI2_INLINE static u64 equal(__m512i values, __m128i value) {
        return _mm512_cmpeq_epi32_mask(values, _mm512_broadcastd_epi32(value));
    }
    LM_VBMI2_INLINE static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
    LM_VBMI2_INLINE static __m128i least_of(__m512i values) {
        const __m256i eight =
            _mm256_min_epu32(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1));
        const __m128i four =
            _mm_min_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
        const __m128i two = _mm_min_epu32(four, _mm_srli_si128(four, 8));
        return _mm_min_epu32(two, _mm_srli_si128(two, 4));
    }
    LM_VBMI2_INLINE static void store_ids(i32* to, __m512i values) {
        _mm512_store_si512(to, values);
    }
};

// The operations of Words for widths that need several registers.
template <typename Number, size_t width>
struct Words {
    using W = Whole<Number>;
    static constexpr size_t each = 64 / sizeof(Number), n = width / each;
    struct Register {
        __m512i parts[n];
    };
    LM_VBMI2_INLINE static Register load(const Number* from) {
        Register values;
        for (size_t i = 0; i < n; ++i) values.parts[i] = _mm512_load_si512(from + i * each);
        return values;
    }
    LM_VBMI2_INLINE static void store(Number* to, Register values) {
        for (size_t i = 0; i < n; ++i) _mm512_store_si512(to + i * each, values.parts[i]);
    }
    LM_VBMI2_INLINE static void store_ids(i32* to, Register values) {
        for (size_t i = 0; i < n; ++i) W::store_ids(to + i * each, values.parts[i]);
    }
    LM_VBMI2_INLINE static Register set(Register values, u64 at, __m128i value) {
        for (size_t i = 0; i < n; ++i)
            values.parts[i] = W::set(values.parts[i], at >> (i * each), value);
        return values;
    }
    LM_VBMI2_INLINE static Register remove(Register values, u64 which, u32 last) {
        const u64 moved = 0 - which;  // the bit `which` and all higher ones
        for (size_t i = 0; i < n; ++i) {
            const __m512i following = i + 1 < n ? values.parts[i + 1] : W::all(last);
            values.parts[i] = W::shift(values.parts[i], moved >> (i * each), following);
        }
        return values;
    }
    LM_VBMI2_INLINE static u64 equal(Register values, __m128i value) {
        u64 which = 0;
        for (size_t i = 0; i < n; ++i) which |= W::equal(values.parts[i], value) << (i * each);
        return which;
    }
    LM_VBMI2_INLINE static __m128i least_of(Register values) {
        __m512i least = values.parts[0];
        for (size_t i = 1; i < n; ++i) least = W::least(least, values.parts[i]);
        return W::least_of(least);
    }
};

// The algorithm: a lane holds one pre-token, as its tokens and their ranks. ranks[i] is the rank of
// the merge of tokens i and i + 1. A step does one merge:
//   1. Insert the ranks of the two pairs that the previous merge created. The previous step has
//   prefetched their slots. The slots are in the cache now, because the other seven lanes have
//   done a step since then.
//   2. Find the minimum of the ranks. A comparison of all ranks with the minimum gives its leftmost
//   position. BPE does this merge next, because it does the lowest rank first, and the leftmost of
//   equal ranks.
//   3. Replace the left token by the result. Remove the right token and its rank: all elements
//      after it move one position to the left.
//   4. Start the look-ups of (previous token, result) and (result, next token).
// Invariant between steps: tokens and ranks fill the register from the left without holes. All
// positions after them hold no_token and no_rank. The elements before and after the register in
// memory also hold no_token. So the first and the last token need no special case, because a pair
// with no_token has no rank.

// The table of merges for numbers of 16 or of 32 bits, and the values of no_token and no_rank.
template <typename Number>
struct Ranks;

template <>
struct Ranks<u16> {
    using Probe = NarrowPairTable::Probe;
    static constexpr u32 no_token = NarrowPairTable::none, no_rank = NarrowPairTable::none;

    LM_VBMI2_INLINE static Probe probe(const BpeModel& model, u32 left, u32 right) {
        return model.narrow_ranks()->probe(NarrowPairTable::key_of(left, right));
    }
    LM_VBMI2_INLINE static __m128i rank_of(const Probe& probe) {
        return _mm_cvtusepi32_epi16(_mm_cvtsi32_si128(static_cast<int>(probe.rank_or_more())));
    }
};

template <>
struct Ranks<u32> {
    using Probe = PairTable::Probe;
    static constexpr u32 no_token = BpeModel::no_id, no_rank = BpeModel::no_rank;

    LM_VBMI2_INLINE static Probe probe(const BpeModel& model, u32 left, u32 right) {
        return model.ranks().probe(
            PairTable::key_of(static_cast<i32>(left), static_cast<i32>(right)));
    }
    LM_VBMI2_INLINE static __m128i rank_of(const Probe& probe) {
        return _mm_cvtsi32_si128(static_cast<int>(probe.rank()));
    }
};

// `first` has the left bytes of sixteen pairs of adjacent bytes, `second` the right bytes.
struct Bytes {
    __m128i first, second;
};
LM_VBMI2_INLINE Bytes bytes_of(const PretokenKey& key, size_t) {
    const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(&key));
    return {bytes, _mm_srli_si128(bytes, 1)};
}
LM_VBMI2_INLINE Bytes bytes_of(std::string_view pretoken, size_t begin) {
    const char* const at = pretoken.data() + begin;
    return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)),
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 1))};
}

LM_VBMI2_INLINE u32 size_of(const PretokenKey& key) {
    return key.length();
}
LM_VBMI2_INLINE u32 size_of(std::string_view pretoken) {
    return static_cast<u32>(pretoken.size());
}

// Saturation turns the 32-bit no_rank of BpeModel::byte_ranks() into the no_rank of 16 bits.
LM_VBMI2_INLINE void store_sixteen(u16* to, __m512i values) {
    Words<u16, 16>::store(to, _mm512_cvtusepi32_epi16(values));
}
LM_VBMI2_INLINE void store_sixteen(u32* to, __m512i values) {
    _mm512_store_si512(to, values);
}

// The state of one pre-token. `around` has room for no_token before and after the tokens, and keeps
// the tokens aligned to a cache line.
template <typename Number, size_t width>
struct alignas(64) Lane {
    static constexpr size_t room = 64 / sizeof(Number);  // elements before and after the tokens

    Number around[room + width + room];
    Number ranks[width];
    // The position of the last merge as a bit, or 0 before the first merge. `before` and `after`
    // are the pending look-ups of the pairs that this merge created, (previous token, result) and
    // (result, next token).
    u64 merged;
    typename Ranks<Number>::Probe before, after;
    size_t pretoken;

    Number* tokens() { return around + room; }
};

template <typename Number>
class VectorMerger : public PretokenMerger {
  public:
    explicit VectorMerger(const BpeModel& model) : model_(&model) {}

    LM_VBMI2 void merge(std::span<const PretokenKey> pretokens, ShortIds* out) override {
        merge_those(pretokens, 1, PretokenKey::longest, out, short_lanes_);
    }
    LM_VBMI2 void merge(std::span<const std::string_view> pretokens, MediumIds* out) override {
        merge_those(pretokens, 1, 32, out, medium_lanes_);
        merge_those(pretokens, 33, MediumIds::longest, out, wide_lanes_);
    }
    u64 operations() const override { return operations_; }

  private:
    static constexpr size_t n_lanes = 8;

    // Merges the pre-tokens of `least` to `most` bytes. Each of the first n lanes holds a
    // pre-token. When the pre-token of a lane is done, the lane loads the next one. If there are no
    // more pre-tokens, the lane is swapped to the end.
    template <size_t width, typename Pretoken, typename Ids>
    LM_VBMI2_INLINE void merge_those(std::span<const Pretoken> pretokens, u32 least, u32 most,
                                     Ids* out, std::array<Lane<Number, width>, n_lanes>& own) {
        std::array<Lane<Number, width>*, n_lanes> lanes;
        size_t next = 0, n = 0;
        const auto begin_next = [&](Lane<Number, width>& lane) LM_VBMI2 {
            // In unsigned arithmetic the condition is true for all sizes outside [least, most].
            while (next < pretokens.size() && size_of(pretokens[next]) - least > most - least)
                ++next;
            if (next == pretokens.size()) return false;
            begin(lane, pretokens, next++);
            return true;
        };
        while (n < n_lanes && begin_next(own[n])) {
            lanes[n] = &own[n];
            ++n;
        }
        while (n > 0) {
            for (size_t i = 0; i < n;) {
                Lane<Number, width>& lane = *lanes[i];
                if (step(lane)) {
                    ++i;
                    continue;
                }
                store_ids_of(lane, out[lane.pretoken]);
                if (begin_next(lane)) {
                    ++i;
                } else {
                    lanes[i] = lanes[--n];
                }
            }
        }
    }

    // Loads a pre-token: gathers the token of each byte and the rank of each pair of adjacent bytes
    // from tables. The masks leave no_token after the last byte and no_rank after the last pair.
    template <size_t width, typename Pretoken>
    LM_VBMI2_INLINE void begin(Lane<Number, width>& lane, std::span<const Pretoken> pretokens,
                               size_t pretoken) {
        const __m512i no_token = _mm512_set1_epi32(Ranks<Number>::no_token);
        const __m512i no_rank = _mm512_set1_epi32(Ranks<Number>::no_rank);
        const u32 n = size_of(pretokens[pretoken]);
        Number* const tokens = lane.tokens();
        for (u32 i = 0; i < width; i += 16) {
            const Bytes bytes = bytes_of(pretokens[pretoken], i);
            const __m512i first = _mm512_cvtepu8_epi32(bytes.first);
            const __m512i pairs =
                _mm512_or_si512(_mm512_slli_epi32(first, 8), _mm512_cvtepu8_epi32(bytes.second));
            store_sixteen(tokens + i,
                          _mm512_mask_i32gather_epi32(
                              no_token, static_cast<__mmask16>(_bzhi_u64(~u64{0}, n) >> i), first,
                              model_->byte_ids(), 4));
            store_sixteen(lane.ranks + i,
                          _mm512_mask_i32gather_epi32(
                              no_rank, static_cast<__mmask16>(_bzhi_u64(~u64{0}, n - 1) >> i),
                              pairs, model_->byte_ranks(), 4));
        }
        tokens[-1] = tokens[width] = static_cast<Number>(Ranks<Number>::no_token);
        lane.merged = 0;
        // Any valid probes can be stored here, because step() ignores their results while `merged`
        // is 0.
        lane.before = lane.after = Ranks<Number>::probe(*model_, 0, 0);
        lane.pretoken = pretoken;
        operations_ += n;
    }

    // Does one merge as described at the top of the file. Returns false if no pair has a rank.
    template <size_t width>
    LM_VBMI2_INLINE bool step(Lane<Number, width>& lane) {
        using W = Words<Number, width>;
        using R = Ranks<Number>;
        // 1. The pair with the previous token is one position to the left of the merge. The masks
        // are 0 for a merge at position 0 and before the first merge. A probe that fails has a rank
        // >= no_rank. Saturation (16 bits) or a minimum (32 bits) turns this rank into no_rank.
        auto ranks = W::set(W::load(lane.ranks), lane.merged >> 1, R::rank_of(lane.before));
        ranks = W::set(ranks, lane.merged, R::rank_of(lane.after));
        // 2. Find the merge.
        const __m128i least = W::least_of(ranks);
        const u32 rank = static_cast<Number>(_mm_cvtsi128_si32(least));
        const auto at = static_cast<u32>(_tzcnt_u64(W::equal(ranks, least)));
        operations_ += 3;
        if (rank == R::no_rank) return false;
        // 3. Replace the two tokens.
        const u64 here = u64{1} << at, right = here << 1;
        const auto id = static_cast<u32>(model_->result(rank));
        Number* const tokens = lane.tokens();
        const u32 before = tokens[i64{at} - 1], after = tokens[at + 2];
        W::store(tokens, W::set(W::remove(W::load(tokens), right, R::no_token), here,
                                _mm_cvtsi32_si128(static_cast<int>(id))));
        W::store(lane.ranks, W::remove(ranks, right, R::no_rank));
        // 4. Start the look-ups.
        lane.merged = here;
        lane.before = R::probe(*model_, before, id);
        lane.after = R::probe(*model_, id, after);
        lane.before.prefetch();
        lane.after.prefetch();
        return true;
    }

    template <size_t width, typename Ids>
    LM_VBMI2_INLINE static void store_ids_of(Lane<Number, width>& lane, Ids& out) {
        using W = Words<Number, width>;
        const auto tokens = W::load(lane.tokens());
        W::store_ids(out.ids, tokens);
        // The ids end at the first no_token. If no position has no_token, all `width` positions are
        // ids.
        const u64 ends = W::equal(tokens, _mm_set1_epi32(Ranks<Number>::no_token));
        out.count = std::min<u32>(static_cast<u32>(_tzcnt_u64(ends)), width);
    }

    const BpeModel* model_;
    std::array<Lane<Number, 16>, n_lanes> short_lanes_;
    std::array<Lane<Number, 32>, n_lanes> medium_lanes_;
    std::array<Lane<Number, MediumIds::longest>, n_lanes> wide_lanes_;
    u64 operations_ = 0;
};

bool has_vectors() {
    return may_use(Vectors::avx512) && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("bmi2");
}

}  // namespace

std::unique_ptr<PretokenMerger> make_vector_merger(const BpeModel& model, MergerWords words) {
    if (!has_vectors()) return nullptr;
    if (words == MergerWords::wide) return std::make_unique<VectorMerger<u32>>(model);
    if (model.narrow_ranks() == nullptr) return nullptr;
    return std::make_unique<VectorMerger<u16>>(model);
}

}  // namespace lm::text

#else

namespace lm::text {

std::unique_ptr<PretokenMerger> make_vector_merger(const BpeModel&, MergerWords) {
    return nullptr;
}

}  // namespace lm::text

#endif
