// SPDX-License-Identifier: Apache-2.0
// The cache from short pieces to their ids: a fixed table of 64-byte buckets with two entries each,
// keyed by the piece's bytes themselves, so that a hit is certain and costs one cache line. A new
// piece goes to the front of its bucket and the piece at the back is forgotten.
#pragma once

#include <cstring>
#include <memory>
#include <string_view>

#include "base/types.hpp"

namespace lm::text {

// Up to 15 bytes, zero-padded, and their number in the 16th.
struct PieceKey {
    static constexpr u32 longest = 15;

    u64 low, high;

    static PieceKey of(std::string_view text, u32 begin, u32 length) {
        if (length > longest) return {0, ~u64{0}};
        u64 words[2] = {0, 0};
        if (begin + 16 <= text.size()) {
            std::memcpy(words, text.data() + begin, 16);
        } else {
            std::memcpy(words, text.data() + begin, length);
        }
        return {words[0] & mask(length),
                (words[1] & mask(length < 8 ? 0 : length - 8)) | static_cast<u64>(length) << 56};
    }
    bool too_long() const { return high == ~u64{0}; }

    u64 hash() const {
        u64 h = (low ^ (high * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
        return h ^ (h >> 32);
    }

  private:
    static u64 mask(u32 n_bytes) { return n_bytes >= 8 ? ~u64{0} : (u64{1} << (8 * n_bytes)) - 1; }
};

template <typename Id>
class PieceCache {
  public:
    static constexpr int most_ids = 14 / sizeof(Id);      // 7 of 16 bits, 3 of 32
    static constexpr size_t n_buckets = size_t{1} << 16;  // 4 MiB

    PieceCache() : buckets_(new Bucket[n_buckets]()) {}

    void prefetch(const PieceKey& key) const { __builtin_prefetch(&bucket(key)); }

    // Writes the ids (and up to 16 bytes at `out` in any case) and returns how many; 0: not here.
    int find(const PieceKey& key, Id* out) const {
        for (const Entry& entry : bucket(key).entries) {
            if (entry.key.low != key.low || entry.key.high != key.high) continue;
            std::memcpy(out, entry.ids, sizeof entry.ids);
            return entry.count;
        }
        return 0;
    }

    void insert(const PieceKey& key, const Id* ids, int count) {
        if (count > most_ids) return;
        Bucket& b = buckets_[key.hash() % n_buckets];
        b.entries[1] = b.entries[0];
        b.entries[0].key = key;
        std::memcpy(b.entries[0].ids, ids, static_cast<size_t>(count) * sizeof(Id));
        b.entries[0].count = static_cast<Id>(count);
    }

  private:
    struct Entry {
        PieceKey key;
        Id ids[most_ids];
        Id count;
    };
    struct alignas(64) Bucket {
        Entry entries[2];
    };
    static_assert(sizeof(Bucket) == 64);

    const Bucket& bucket(const PieceKey& key) const { return buckets_[key.hash() % n_buckets]; }

    std::unique_ptr<Bucket[]> buckets_;
};

}  // namespace lm::text
