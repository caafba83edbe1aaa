// SPDX-License-Identifier: Apache-2.0
// Caches that map pre-tokens to ids. Their size is decided when they are made. The key is the bytes
// of the pre-token and not a hash, so a hit is exact. An entry of a pre-token of up to 15 bytes
// takes half a cache line. An entry of a longer pre-token takes four lines.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/hash.hpp"
#include "base/types.hpp"
#include "text/bpe/merges/huge_array.hpp"
#include "text/bpe/merges/pretoken_key.hpp"

namespace lm::text {

// Returns the number of places of a cache, a power of two. The cache is for a text of about
// `text_bytes` bytes (-1: unknown) that has at most one new pre-token in every `distance` bytes. A
// small text gets a small cache, because the kernel must clear every page of the cache, and this
// could take longer than the encoding.
inline u32 cache_places(i64 text_bytes, i64 distance, u32 fewest, u32 most) {
    const i64 wanted = text_bytes < 0 ? most : text_bytes / distance;
    return std::bit_ceil(static_cast<u32>(std::clamp<i64>(wanted, fewest, most)));
}

// The ids of a short pre-token in 16 bytes: up to seven ids of 16 bits, or up to five of 24 bits.
template <typename Id>
class PackedIds;

template <>
class PackedIds<u16> {
  public:
    static constexpr u32 most = 7;
    static constexpr u32 elsewhere = 0xFFFF;  // count of an entry whose ids are in the long cache

    u32 count() const { return count_; }
    // Copies the ids to `out`. Always writes 16 bytes.
    void copy_to(u16* out) const { std::memcpy(out, this, sizeof *this); }
    // Stores the ids. A `count` above `most` means that the ids are stored elsewhere. `most` ids
    // must be readable at `ids`, even if `count` is smaller.
    void set(const i32* ids, u32 count) {
        for (u32 i = 0; i < most; ++i) ids_[i] = static_cast<u16>(ids[i]);
        count_ = static_cast<u16>(count);
    }

  private:
    u16 ids_[most];
    u16 count_;
};

template <>
class PackedIds<i32> {
  public:
    static constexpr u32 most = 5;
    static constexpr u32 elsewhere = 0xFF;

    u32 count() const { return bytes_[15]; }
    // Copies the ids to `out`. Always writes 20 bytes.
    void copy_to(i32* out) const {
        for (u32 i = 0; i < most; ++i) {
            u32 id;
            std::memcpy(&id, bytes_ + 3 * i, sizeof id);
            out[i] = static_cast<i32>(id & 0xFF'FFFF);
        }
    }
    void set(const i32* ids, u32 count) {
        for (u32 i = 0; i < most; ++i) std::memcpy(bytes_ + 3 * i, ids + i, sizeof(i32));
        bytes_[15] = static_cast<u8>(count);
    }

  private:
    u8 bytes_[16];
};

// The cache of short pre-tokens. A pre-token is at the place that its hash selects, or at the
// neighbour of that place in the same cache line. A caller with many pre-tokens first compares the
// keys at all places in one vectorised loop.
template <typename Id>
class PretokenCache {
  public:
    struct alignas(32) Entry {
        PretokenKey key;  // in zeroed memory its length is 0, so it equals no pre-token
        PackedIds<Id> ids;
    };
    static_assert(sizeof(Entry) == 32);

    // Allocates 2 to 32 MiB.
    explicit PretokenCache(i64 text_bytes)
        : place_bits_(cache_places(text_bytes, 16, u32{1} << 16, u32{1} << 20) - 1),
          entries_(size_t{place_bits_} + 1) {}

    const Entry* entries() const { return &entries_[0]; }
    // The bits of a hash that select a place.
    u32 place_bits() const { return place_bits_; }
    const Entry* place_of(u32 hash) const { return &entries_[hash & place_bits_]; }
    const Entry* neighbour_of(const Entry* place) const { return &entries_[index_of(place) ^ 1]; }

    // Returns the entry of the pre-token, or nullptr.
    const Entry* find(const Entry* place, const PretokenKey& key) const {
        if (place->key == key) return place;
        const Entry* const neighbour = neighbour_of(place);
        return neighbour->key == key ? neighbour : nullptr;
    }

    // If the neighbour of `place` holds the pre-token, swaps the two entries, because find() reads
    // `place` first.
    void move_to_place(const Entry* place, const PretokenKey& key) {
        Entry& here = entries_[index_of(place)];
        Entry& neighbour = entries_[index_of(place) ^ 1];
        if (here.key != key && neighbour.key == key) std::swap(here, neighbour);
    }

    void insert(const Entry* place, const Entry& entry) {
        if (find(place, entry.key) != nullptr) return;
        entries_[index_of(place) ^ (place->ids.count() == 0 ? 0 : 1)] = entry;
    }

    size_t index_of(const Entry* place) const { return static_cast<size_t>(place - entries()); }

  private:
    u32 place_bits_;
    HugeArray<Entry> entries_;
};

template <typename Id>
class LongPretokenCache {
  public:
    static constexpr size_t longest = 112;

    // Allocates 2 to 8 MiB.
    explicit LongPretokenCache(i64 text_bytes)
        : place_bits_(cache_places(text_bytes, 512, u32{1} << 13, u32{1} << 15) - 1),
          entries_(size_t{place_bits_} + 1) {}

    // Hashes at most 112 bytes, because the cache contains no longer pre-token.
    u32 place_of(std::string_view pretoken) const {
        return static_cast<u32>(hash64(pretoken.substr(0, longest))) & place_bits_;
    }

    // Prefetches the first two lines of the entry. Most entries use no more than these.
    void prefetch(u32 place) const {
        __builtin_prefetch(&entries_[place]);
        __builtin_prefetch(reinterpret_cast<const char*>(&entries_[place]) + 64);
    }

    bool has(u32 place, std::string_view pretoken) const {
        const Entry& entry = entries_[place];
        return entry.length == pretoken.size() &&
               std::memcmp(entry.bytes, pretoken.data(), pretoken.size()) == 0;
    }

    // Writes the ids of a pre-token and returns their number, or 0 if the cache does not contain
    // it. May write 32 bytes even for fewer ids.
    size_t find(u32 place, std::string_view pretoken, Id* out) const {
        if (!has(place, pretoken)) return 0;
        const Entry& entry = entries_[place];
        const char* const ids = entry.bytes + entry.length;
        std::memcpy(out, ids, 32);
        if (entry.count > 32 / sizeof(Id)) std::memcpy(out, ids, entry.count * sizeof(Id));
        return entry.count;
    }

    // Does nothing if the pre-token or its ids do not fit in an entry.
    void insert(u32 place, std::string_view pretoken, const Id* ids, size_t count) {
        Entry& entry = entries_[place];
        if (pretoken.size() > longest || pretoken.size() + count * sizeof(Id) > sizeof entry.bytes)
            return;
        entry.length = static_cast<u16>(pretoken.size());
        entry.count = static_cast<u16>(count);
        std::memcpy(entry.bytes, pretoken.data(), pretoken.size());
        std::memcpy(entry.bytes + pretoken.size(), ids, count * sizeof(Id));
    }

  private:
    struct alignas(64) Entry {
        u16 length, count;  // length 0: the entry is empty
        char bytes[252];    // the pre-token, then its ids
    };
    static_assert(sizeof(Entry) == 256);

    u32 place_bits_;
    HugeArray<Entry> entries_;
};

}  // namespace lm::text
