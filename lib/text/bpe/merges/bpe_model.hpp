// SPDX-License-Identifier: Apache-2.0
// The tokens and merges of byte-level BPE (Sennrich et al. 2016, in the byte-level form of GPT-2),
// in tables for fast look-ups. The model does not change after it is built, and all threads share
// it.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/types.hpp"
#include "text/bpe/merges/huge_array.hpp"
#include "text/bpe/merges/pair_table.hpp"

namespace lm::text {

struct Merge {
    i32 left, right, result;
};

class BpeModel {
  public:
    static constexpr int rank_bits = PairTable::rank_bits, id_bits = PairTable::id_bits;
    static constexpr u32 no_rank = PairTable::no_rank;
    static constexpr i32 no_id = (1 << id_bits) - 1;  // means "no token": no merge contains it

    // tokens[id] are the bytes of the token, empty for an unused id. byte_ids[b] is the id of the
    // single byte b, or -1 for a byte without a token, which no text may contain. `merges` are in
    // order of rank, without duplicates, and contain only ids of `tokens`.
    BpeModel(std::vector<std::string> tokens, std::array<i32, 256> byte_ids,
             std::vector<Merge> merges);

    i64 vocab_size() const { return static_cast<i64>(tokens_.size()); }
    std::string_view token(i32 id) const { return tokens_[static_cast<size_t>(id)]; }
    std::span<const Merge> merges() const { return merges_; }
    i32 byte_id(u8 byte) const { return byte_ids_[byte]; }
    bool lacks(u8 byte) const { return byte_ids_[byte] == no_id; }
    const i32* byte_ids() const { return byte_ids_.data(); }

    // Returns the rank of the merge of a pair, or no_rank if the pair does not merge. result(rank)
    // is the id of the merged token.
    u32 rank(i32 left, i32 right) const { return ranks_.find(PairTable::key_of(left, right)); }
    const PairTable& ranks() const { return ranks_; }
    // Returns the table of ranks with 16-bit ids and ranks, or nullptr if 16 bits are too few.
    const NarrowPairTable* narrow_ranks() const {
        return narrow_ranks_ ? &*narrow_ranks_ : nullptr;
    }
    u32 byte_rank(u8 left, u8 right) const {
        return byte_ranks_[static_cast<size_t>(left) << 8 | right];
    }
    const u32* byte_ranks() const { return &byte_ranks_[0]; }  // indexed by left << 8 | right
    i32 result(u32 rank) const {
        return in_rank_order_ ? first_result_ + static_cast<i32>(rank) : results_[rank];
    }

    // Returns the id of the token that equals `pretoken`, if add_whole_token() added it, else -1.
    i32 find_whole(std::string_view pretoken) const {
        if (!may_be_whole_[look_of(pretoken)]) return -1;
        const auto at = whole_.find(pretoken);
        return at == whole_.end() ? -1 : at->second;
    }
    bool has_whole_tokens() const { return !whole_.empty(); }
    // Makes find_whole() return `id` for a pre-token that equals token(id). The option
    // ignore_merges of tokenizer.json needs this. Must be called only for a token that BPE does not
    // produce from the bytes of the token.
    void add_whole_token(i32 id) {
        whole_.emplace(token(id), id);
        may_be_whole_[look_of(token(id))] = true;
    }

    // Returns whether some merge joins a token that ends with the byte `a` and a token that begins
    // with `b`. If not, no merge crosses from `a` to `b`, and a cut there does not change the ids.
    bool may_join(u8 a, u8 b) const {
        const unsigned bit = static_cast<unsigned>(a) << 8 | b;
        return (joins_[bit >> 6] >> (bit & 63) & 1) != 0;
    }

  private:
    // Returns a hash of the length, the first byte and the last byte. The hash is a filter, so most
    // pre-tokens need no look-up in whole_.
    static u32 look_of(std::string_view pretoken) {
        const u32 look = static_cast<u32>(pretoken.size()) << 16 |
                         static_cast<u32>(static_cast<u8>(pretoken.front())) << 8 |
                         static_cast<u8>(pretoken.back());
        return look * 0x9E37'79B1U >> 16;
    }

    void rank_bytes();
    void make_narrow_ranks();

    std::vector<std::string> tokens_;
    std::array<i32, 256> byte_ids_;
    std::vector<Merge> merges_;
    HugeArray<i32> results_;     // indexed by rank
    HugeArray<u32> byte_ranks_;  // ranks of pairs of bytes, indexed by left << 8 | right
    PairTable ranks_;
    std::optional<NarrowPairTable> narrow_ranks_;
    bool in_rank_order_ = true;  // the merge of rank r results in first_result_ + r
    i32 first_result_ = 0;
    std::array<u64, 1024> joins_{};  // one bit for each pair of bytes, see may_join()
    std::unordered_map<std::string_view, i32> whole_;
    std::bitset<size_t{1} << 16> may_be_whole_;
};

}  // namespace lm::text
