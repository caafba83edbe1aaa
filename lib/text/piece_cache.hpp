// SPDX-License-Identifier: Apache-2.0
// Caches from pieces to their ids, of fixed size, keyed by the piece's own bytes so that a hit is
// certain. Short pieces (up to 15 bytes): half a line of 64 bytes each. Longer ones: two lines
// each.
#pragma once

#include <cstring>
#include <string_view>
#include <utility>

#include "base/hash.hpp"
#include "base/types.hpp"
#include "text/huge_array.hpp"
#include "text/piece_key.hpp"

namespace lm::text {

// A piece lies at the place that its hash names, or at that place's neighbour in the same line. Who
// asks for many pieces looks at their places only, and has what lies beside them brought there.
template <typename Id>
class PieceCache {
  public:
    static constexpr size_t most_ids = 14 / sizeof(Id);  // 7 of 16 bits, 3 of 32
    static constexpr u32 n_places = u32{1} << 20;        // 32 MiB

    struct alignas(32) Entry {
        PieceKey key;  // a tag of 0 (memory as it comes) equals no piece
        Id ids[most_ids];
        Id count;
    };
    static_assert(sizeof(Entry) == 32);

    PieceCache() : entries_(n_places) {}

    const Entry* entries() const { return &entries_[0]; }

    // nullptr: not here.
    const Entry* find(u32 place, const PieceKey& key) const {
        if (entries_[place].key == key) return &entries_[place];
        if (entries_[place ^ 1].key == key) return &entries_[place ^ 1];
        return nullptr;
    }

    // Whether the piece is here; if so, it is at its place now.
    bool bring(u32 place, const PieceKey& key) {
        if (entries_[place].key == key) return true;
        if (entries_[place ^ 1].key != key) return false;
        std::swap(entries_[place], entries_[place ^ 1]);
        return true;
    }

    // `count` is at most most_ids.
    void insert(u32 place, const PieceKey& key, const Id* ids, size_t count) {
        if (find(place, key) != nullptr) return;
        Entry& entry = entries_[entries_[place].count == 0 ? place : place ^ 1];
        entry.key = key;
        std::memcpy(entry.ids, ids, count * sizeof(Id));
        entry.count = static_cast<Id>(count);
    }

  private:
    HugeArray<Entry> entries_;
};

template <typename Id>
class LongPieceCache {
  public:
    static constexpr size_t longest = 48;
    static constexpr size_t most_ids = 76 / sizeof(Id);
    static constexpr u32 n_places = u32{1} << 14;  // 2 MiB of 16-bit ids

    LongPieceCache() : entries_(n_places) {}

    static u32 place_of(std::string_view piece) {
        return static_cast<u32>(hash64(piece) % n_places);
    }
    void prefetch(u32 place) const {
        __builtin_prefetch(&entries_[place]);
        __builtin_prefetch(reinterpret_cast<const char*>(&entries_[place]) + 64);
    }

    // Writes the ids of a piece of up to 48 bytes and returns how many; 0: not here.
    size_t find(u32 place, std::string_view piece, Id* out) const {
        const Entry& entry = entries_[place];
        if (!holds(entry, piece)) return 0;
        std::memcpy(out, entry.ids, entry.count * sizeof(Id));
        return entry.count;
    }
    bool has(u32 place, std::string_view piece) const { return holds(entries_[place], piece); }

    void insert(u32 place, std::string_view piece, const Id* ids, size_t count) {
        if (count > most_ids) return;
        Entry& entry = entries_[place];
        std::memcpy(entry.piece, piece.data(), piece.size());
        entry.length = static_cast<u16>(piece.size());
        entry.count = static_cast<u16>(count);
        std::memcpy(entry.ids, ids, count * sizeof(Id));
    }

  private:
    struct alignas(64) Entry {
        char piece[longest];
        u16 length, count;  // no length: nothing is here
        Id ids[most_ids];
    };
    static_assert(sizeof(Entry) == 128);

    static bool holds(const Entry& entry, std::string_view piece) {
        return entry.length == piece.size() &&
               std::memcmp(entry.piece, piece.data(), piece.size()) == 0;
    }

    HugeArray<Entry> entries_;
};

}  // namespace lm::text
