// SPDX-License-Identifier: Apache-2.0
// Caches from pieces to their ids, of fixed size, keyed by the piece's own bytes so that a hit is
// certain. Short pieces (up to 15 bytes): one line of 64 bytes holds two of them with their ids;
// the first that comes stays (common ones come early), the second makes room for a new one. Longer
// ones: two lines each.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/types.hpp"
#include "text/huge_array.hpp"

namespace lm::text {

namespace detail {
struct KeyMasks {
    u64 low[17], high[17], tag[17];
    constexpr KeyMasks() : low{}, high{}, tag{} {
        for (u32 n = 0; n <= 16; ++n) {
            low[n] = n >= 8 ? ~u64{0} : (u64{1} << (8 * n)) - 1;
            high[n] = n <= 8 ? 0 : n == 16 ? ~u64{0} : (u64{1} << (8 * (n - 8))) - 1;
            tag[n] = (n == 16 ? u64{0xFF} : u64{n}) << 56;
        }
    }
};
inline constexpr KeyMasks key_masks;
}  // namespace detail

// Up to 15 bytes, zero-padded, and their number in the 16th. A longer piece gets 0xFF there and
// equals no key of the cache.
struct PieceKey {
    static constexpr u32 longest = 15;

    u64 low, high;

    // 16 bytes are readable at `piece`, whatever its length.
    static PieceKey load(const char* piece, u32 length) {
        PieceKey words;
        std::memcpy(&words, piece, 16);
        const u32 n = std::min(length, 16U);
        return {words.low & detail::key_masks.low[n],
                (words.high & detail::key_masks.high[n]) | detail::key_masks.tag[n]};
    }
    static PieceKey of(std::string_view piece) {
        char padded[16] = {};
        std::memcpy(padded, piece.data(), std::min<size_t>(piece.size(), 16));
        return load(padded, static_cast<u32>(piece.size()));
    }

    bool is_ascii() const { return ((low | (high << 8)) & 0x8080'8080'8080'8080ULL) == 0; }

    u64 hash() const {
        const u64 h = (low ^ (high * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
        return h >> 32;
    }
};

template <typename Id>
class PieceCache {
  public:
    static constexpr int most_ids = 14 / sizeof(Id);      // 7 of 16 bits, 3 of 32
    static constexpr size_t n_buckets = size_t{1} << 18;  // 16 MiB

    PieceCache() : buckets_(n_buckets) {}

    static u32 slot_of(const PieceKey& key) { return static_cast<u32>(key.hash() % n_buckets); }
    void prefetch(u32 slot) const { __builtin_prefetch(&buckets_[slot]); }

    // Writes the ids (16 bytes at `out` in any case) and returns how many; 0: not here. No branch
    // depends on which of the two entries it is.
    int find(u32 slot, const PieceKey& key, Id* out) const {
        const Entry* entries = buckets_[slot].entries;
        const bool first = equal(entries[0].key, key);
        const bool second = equal(entries[1].key, key);
        size_t which = second;
        u32 found = static_cast<u32>(first) | static_cast<u32>(second);
        // Or the compiler makes branches of them again, which nobody can predict.
        __asm__("" : "+r"(which), "+r"(found));
        std::memcpy(out, entries[which].ids, 16);
        return static_cast<int>(entries[which].count & (0 - found));
    }

    // `count` is at most most_ids.
    void insert(u32 slot, const PieceKey& key, const Id* ids, size_t count) {
        Entry* entries = buckets_[slot].entries;
        Entry& entry = entries[entries[0].count == 0 ? 0 : 1];
        entry.key = key;
        std::memcpy(entry.ids, ids, count * sizeof(Id));
        entry.count = static_cast<Id>(count);
    }

  private:
    static bool equal(const PieceKey& a, const PieceKey& b) {
#if defined(__SSE2__)
        const __m128i same = _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(&a)),
                                            _mm_loadu_si128(reinterpret_cast<const __m128i*>(&b)));
        return _mm_movemask_epi8(same) == 0xFFFF;
#else
        return ((a.low ^ b.low) | (a.high ^ b.high)) == 0;
#endif
    }

    struct Entry {
        PieceKey key;  // a tag of 0 (memory as it comes) equals no piece
        Id ids[most_ids];
        Id count;
        static_assert((most_ids + 1) * sizeof(Id) == 16);
    };
    struct alignas(64) Bucket {
        Entry entries[2];
    };
    static_assert(sizeof(Bucket) == 64);

    HugeArray<Bucket> buckets_;
};

template <typename Id>
class LongPieceCache {
  public:
    static constexpr size_t longest = 48;
    static constexpr size_t most_ids = 72 / sizeof(Id);
    static constexpr size_t n_entries = size_t{1} << 14;  // 2 MiB

    LongPieceCache() : entries_(n_entries) {}

    // Writes the ids of a piece of up to 48 bytes and returns how many; 0: not here.
    size_t find(std::string_view piece, Id* out) const {
        const Key key = key_of(piece);
        const Entry& entry = entries_[slot_of(key)];
        if (std::memcmp(&entry.key, &key, sizeof key) != 0) return 0;
        std::memcpy(out, entry.ids, entry.count * sizeof(Id));
        return entry.count;
    }

    void insert(std::string_view piece, const Id* ids, size_t count) {
        if (count > most_ids) return;
        const Key key = key_of(piece);
        Entry& entry = entries_[slot_of(key)];
        entry.key = key;
        entry.count = static_cast<u32>(count);
        std::memcpy(entry.ids, ids, count * sizeof(Id));
    }

  private:
    struct Key {
        u64 words[6];
        u32 length;
    };
    struct alignas(64) Entry {
        Key key;
        u32 count;
        Id ids[most_ids];
    };
    static_assert(sizeof(Entry) == 128 || sizeof(Entry) == 192);

    static Key key_of(std::string_view piece) {
        Key key;
        std::memset(&key, 0, sizeof key);
        std::memcpy(key.words, piece.data(), piece.size());
        key.length = static_cast<u32>(piece.size());
        return key;
    }
    static size_t slot_of(const Key& key) {
        u64 h = key.length;
        for (const u64 word : key.words) h = (h ^ word) * 0x9E3779B97F4A7C15ULL, h ^= h >> 32;
        return h % n_entries;
    }

    HugeArray<Entry> entries_;
};

}  // namespace lm::text
