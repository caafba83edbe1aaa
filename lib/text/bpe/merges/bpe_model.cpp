// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/merges/bpe_model.hpp"

#include <utility>

#include "base/error.hpp"

namespace lm::text {
namespace {

std::vector<u64> keys_of(std::span<const Merge> merges) {
    std::vector<u64> keys;
    keys.reserve(merges.size());
    for (const Merge& m : merges) keys.push_back(PairTable::key_of(m.left, m.right));
    return keys;
}

}  // namespace

BpeModel::BpeModel(std::vector<std::string> tokens, std::array<i32, 256> byte_ids,
                   std::vector<Merge> merges)
    : tokens_(std::move(tokens)),
      byte_ids_(byte_ids),
      merges_(std::move(merges)),
      results_(merges_.size() + 1),
      byte_ranks_(size_t{1} << 16),
      ranks_(keys_of(merges_)) {
    LM_CHECK(tokens_.size() < no_id, "expected fewer than {} ids, got {}", no_id, tokens_.size());
    LM_CHECK(merges_.size() < no_rank, "expected fewer than {} merges, got {}", no_rank,
             merges_.size());
    if (!merges_.empty()) first_result_ = merges_[0].result;
    for (size_t rank = 0; rank < merges_.size(); ++rank) {
        const Merge& merge = merges_[rank];
        results_[rank] = merge.result;
        if (merge.result != first_result_ + static_cast<i32>(rank)) in_rank_order_ = false;
        // Only the pair of bytes at the joint is new. The merges of left and right set the bits of
        // the pairs inside them.
        const auto a = static_cast<u8>(token(merge.left).back());
        const auto b = static_cast<u8>(token(merge.right).front());
        const unsigned bit = static_cast<unsigned>(a) << 8 | b;
        joins_[bit >> 6] |= u64{1} << (bit & 63);
    }
    rank_bytes();
    make_narrow_ranks();
}

void BpeModel::rank_bytes() {
    constexpr size_t n_pairs = size_t{1} << 16;
    std::fill(&byte_ranks_[0], &byte_ranks_[0] + n_pairs, no_rank);
    std::vector<i32> byte_of(tokens_.size(), -1);
    for (int byte = 0; byte < 256; ++byte) {
        i32& id = byte_ids_[static_cast<size_t>(byte)];
        if (id < 0) {
            id = no_id;
        } else {
            byte_of[static_cast<size_t>(id)] = byte;
        }
    }
    for (size_t rank = 0; rank < merges_.size(); ++rank) {
        const i32 left = byte_of[static_cast<size_t>(merges_[rank].left)];
        const i32 right = byte_of[static_cast<size_t>(merges_[rank].right)];
        if (left >= 0 && right >= 0)
            byte_ranks_[static_cast<size_t>(left << 8 | right)] = static_cast<u32>(rank);
    }
}

void BpeModel::make_narrow_ranks() {
    if (tokens_.size() > NarrowPairTable::none || merges_.size() > NarrowPairTable::none) return;
    std::vector<u32> keys;
    for (const Merge& m : merges_)
        keys.push_back(
            NarrowPairTable::key_of(static_cast<u32>(m.left), static_cast<u32>(m.right)));
    narrow_ranks_.emplace(keys);
    if (!narrow_ranks_->ok()) narrow_ranks_.reset();
}

}  // namespace lm::text
