// SPDX-License-Identifier: Apache-2.0
// Caches from pre-tokens to their ids, of fixed size, keyed by the pre-token's own bytes so that a
// hit is certain. Short pre-tokens (up to 15 bytes): half a line of 64 bytes each. Longer ones:
// four lines each.
#pragma once

#include <cstring>
#include <string_view>
#include <utility>

#include "base/hash.hpp"
#include "base/types.hpp"
#include "text/bpe/huge_array.hpp"
#include "text/bpe/pretoken_key.hpp"

namespace lm::text {

// The ids of a short pre-token, in 16 bytes: seven of 16 bits or five of 24.
template <typename Id>
class PackedIds;

template <>
class PackedIds<u16> {
  public:
    static constexpr u32 most = 7;
    static constexpr u32 elsewhere = 0xFFFF;  // a count that says where they are not

    u32 count() const { return count_; }
    // 16 bytes may be written, whatever the count.
    void copy_to(u16* out) const { std::memcpy(out, this, sizeof *this); }
    // `count` is at most `most`, or `elsewhere`; as many ids as there may be are readable.
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
    // 20 bytes may be written.
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

// A pre-token lies at the place that its hash names, or at that place's neighbour in the same line.
// Who asks for many pre-tokens looks at their places first.
template <typename Id>
class PretokenCache {
  public:
    static constexpr u32 n_places = u32{1} << 20;  // 32 MiB

    struct alignas(32) Entry {
        PretokenKey key;  // a tag of 0 (memory as it comes) equals no pre-token
        PackedIds<Id> ids;
    };
    static_assert(sizeof(Entry) == 32);

    PretokenCache() : entries_(n_places) {}

    const Entry* entries() const { return &entries_[0]; }
    const Entry* place_of(u32 hash) const { return &entries_[hash % n_places]; }
    const Entry* neighbour_of(const Entry* place) const { return &entries_[index_of(place) ^ 1]; }

    // nullptr: not here.
    const Entry* find(const Entry* place, const PretokenKey& key) const {
        if (place->key == key) return place;
        const Entry* const neighbour = neighbour_of(place);
        return neighbour->key == key ? neighbour : nullptr;
    }

    // If the pre-token lies beside its place, it goes there.
    void bring(const Entry* place, const PretokenKey& key) {
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
    HugeArray<Entry> entries_;
};

template <typename Id>
class LongPretokenCache {
  public:
    static constexpr size_t longest = 112;
    static constexpr u32 n_places = u32{1} << 15;  // 8 MiB

    LongPretokenCache() : entries_(n_places) {}

    // Whatever the pre-token is longer than that is not what its place holds.
    static u32 place_of(std::string_view pretoken) {
        return static_cast<u32>(hash64(pretoken.substr(0, longest)) % n_places);
    }

    // Two lines have all of most pre-tokens.
    void prefetch(u32 place) const {
        __builtin_prefetch(&entries_[place]);
        __builtin_prefetch(reinterpret_cast<const char*>(&entries_[place]) + 64);
    }

    bool has(u32 place, std::string_view pretoken) const {
        const Entry& entry = entries_[place];
        return entry.length == pretoken.size() &&
               std::memcmp(entry.bytes, pretoken.data(), pretoken.size()) == 0;
    }

    // Writes the ids of a pre-token and returns how many; 0: not here. 32 bytes may be overwritten
    // whatever there is.
    size_t find(u32 place, std::string_view pretoken, Id* out) const {
        if (!has(place, pretoken)) return 0;
        const Entry& entry = entries_[place];
        const char* const ids = entry.bytes + entry.length;
        std::memcpy(out, ids, 32);
        if (entry.count > 32 / sizeof(Id)) std::memcpy(out, ids, entry.count * sizeof(Id));
        return entry.count;
    }

    // What is too long is not kept.
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
        u16 length, count;  // no length: nothing is here
        char bytes[252];    // the pre-token, its ids
    };
    static_assert(sizeof(Entry) == 256);

    HugeArray<Entry> entries_;
};

}  // namespace lm::text
