// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/bpe_model.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "base/error.hpp"

namespace lm::text {
namespace {

constexpr u32 short_limit = 48;  // above it the heap wins over scanning; positions fit 6 bits
constexpr u32 nowhere = 0xFFFF'FFFF;

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
    LM_CHECK(tokens_.size() < no_id, "a vocabulary of 2 million ids or more");
    LM_CHECK(merges_.size() < no_rank, "4 million merges or more");
    if (!merges_.empty()) first_result_ = merges_[0].result;
    for (size_t rank = 0; rank < merges_.size(); ++rank) {
        const Merge& merge = merges_[rank];
        results_[rank] = merge.result;
        if (merge.result != first_result_ + static_cast<i32>(rank)) in_rank_order_ = false;
        // The joint is what counts: the pairs inside left and right have merges of their own.
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
    for (int byte = 0; byte < 256; ++byte)
        byte_of[static_cast<size_t>(byte_ids_[static_cast<size_t>(byte)])] = byte;
    for (size_t rank = 0; rank < merges_.size(); ++rank) {
        const i32 left = byte_of[static_cast<size_t>(merges_[rank].left)];
        const i32 right = byte_of[static_cast<size_t>(merges_[rank].right)];
        if (left >= 0 && right >= 0)
            byte_ranks_[static_cast<size_t>(left << 8 | right)] = static_cast<u32>(rank);
    }
}

void BpeModel::make_narrow_ranks() {
    if (tokens_.size() > NarrowPairs::none || merges_.size() > NarrowPairs::none) return;
    std::vector<u32> keys;
    for (const Merge& m : merges_)
        keys.push_back(NarrowPairs::key_of(static_cast<u32>(m.left), static_cast<u32>(m.right)));
    narrow_ranks_.emplace(keys);
    if (!narrow_ranks_->ok()) narrow_ranks_.reset();
}

std::span<const i32> PieceEncoder::encode(std::string_view piece) {
    ids_.clear();
    size_t begin = 0;
    for (size_t i = 1; i < piece.size(); ++i) {
        if (model_->may_join(static_cast<u8>(piece[i - 1]), static_cast<u8>(piece[i]))) continue;
        encode_part(piece.substr(begin, i - begin));
        begin = i;
    }
    operations_ += piece.size();
    if (begin < piece.size()) encode_part(piece.substr(begin));
    return ids_;
}

// Whether two tokens beside each other stay as they are. A sequence of tokens is what its bytes
// become as soon as that is true of every two neighbours, whatever the merges: as long as no merge
// crosses from one token into the next, each token's bytes are merged as if they were alone, and of
// two neighbours the one whose next merge has the lower rank goes first, as if both were alone. A
// first merge across would have been the lowest of these two as well.
bool PieceEncoder::meet(i32 left, i32 right) {
    const std::string both = std::string(model_->token(left)) + std::string(model_->token(right));
    const std::span<const i32> ids = encode(both);
    return ids.size() == 2 && ids[0] == left && ids[1] == right;
}

void PieceEncoder::begin_window(std::string_view piece, size_t window) {
    const std::span<const i32> ids = encode(piece.substr(0, window));
    ids_of_window_.assign(ids.begin(), ids.end());
}

// The window was encoded on its own; its last tokens, which the text behind it may change, are
// taken away, and where it is cut the tokens on both sides must meet. Returns where that is, with
// the ids of the window that follows; 0: there is no such place.
size_t PieceEncoder::cut_window(std::string_view piece, size_t window) {
    constexpr int most_tries = 8;
    const size_t least = window / 2, most = window - window / 8;
    size_t size = window;
    for (int tries = 0; tries < most_tries; ++tries) {
        do {
            if (ids_of_window_.empty()) return 0;
            size -= model_->token(ids_of_window_.back()).size();
            ids_of_window_.pop_back();
        } while (size > most);
        if (size < least || ids_of_window_.empty()) return 0;
        const std::span<const i32> ids = encode(piece.substr(size, window));
        following_.assign(ids.begin(), ids.end());
        if (meet(ids_of_window_.back(), following_.front())) return size;
    }
    return 0;
}

void PieceEncoder::encode_part(std::string_view part) {
    if (part.size() == 1) {
        ids_.push_back(model_->byte_id(static_cast<u8>(part[0])));
    } else if (part.size() <= short_limit) {
        encode_short(part);
    } else {
        encode_long(part);
    }
}

// Nothing moves: tokens stay where their first byte was, linked by next and previous. The smallest
// of (rank, position) is the next merge, so the minimum needs no branches.
void PieceEncoder::encode_short(std::string_view part) {
    constexpr u32 none = ~0U;
    const auto pack = [](u32 rank_of_pair, u32 i) {
        return rank_of_pair == BpeModel::no_rank ? none : rank_of_pair << 6 | i;
    };
    i32 ids[short_limit];
    u32 pairs[short_limit];  // of the token at i and the one after it
    u8 next[short_limit + 1], previous[short_limit + 1];
    const auto n = static_cast<u32>(part.size());
    const auto byte = [&](u32 i) { return static_cast<u8>(part[i]); };
    for (u32 i = 0; i < n; ++i) {
        ids[i] = model_->byte_id(byte(i));
        pairs[i] = i + 1 < n ? pack(model_->byte_rank(byte(i), byte(i + 1)), i) : none;
        next[i] = static_cast<u8>(i + 1);
        previous[i + 1] = static_cast<u8>(i);
    }
    for (operations_ += n;; operations_ += n) {
        u32 best = none;
        for (u32 i = 0; i < n; ++i) best = std::min(best, pairs[i]);
        if (best == none) break;
        const u32 left = best & 63;
        const u32 right = next[left];
        const u32 after = next[right];
        ids[left] = model_->result(best >> 6);
        next[left] = static_cast<u8>(after);
        previous[after] = static_cast<u8>(left);
        pairs[right] = none;
        pairs[left] = after < n ? pack(rank(ids[left], ids[after]), left) : none;
        if (left > 0)
            pairs[previous[left]] = pack(rank(ids[previous[left]], ids[left]), previous[left]);
    }
    for (u32 i = 0; i < n; i = next[i]) ids_.push_back(ids[i]);
}

void PieceEncoder::push_pair(u32 left) {
    Node& node = nodes_[left];
    node.rank = node.next == nowhere ? BpeModel::no_rank : rank(node.id, nodes_[node.next].id);
    if (node.rank == BpeModel::no_rank) return;
    heap_.push_back(static_cast<u64>(node.rank) << 32 | left);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void PieceEncoder::encode_long(std::string_view part) {
    const auto n = static_cast<u32>(part.size());
    nodes_.resize(n);
    heap_.clear();
    for (u32 i = 0; i < n; ++i) {
        nodes_[i] = {model_->byte_id(static_cast<u8>(part[i])), i == 0 ? nowhere : i - 1,
                     i + 1 == n ? nowhere : i + 1, BpeModel::no_rank};
    }
    for (u32 i = 0; i + 1 < n; ++i) {
        nodes_[i].rank = model_->byte_rank(static_cast<u8>(part[i]), static_cast<u8>(part[i + 1]));
        if (nodes_[i].rank != BpeModel::no_rank) heap_.push_back(u64{nodes_[i].rank} << 32 | i);
    }
    std::ranges::make_heap(heap_, std::greater<>());
    operations_ += n;
    while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        const u64 top = heap_.back();
        heap_.pop_back();
        ++operations_;
        const auto left = static_cast<u32>(top);
        // A pair that has changed since it was pushed carries another rank, or none.
        if (nodes_[left].rank != static_cast<u32>(top >> 32)) continue;
        const u32 right = nodes_[left].next;
        nodes_[left].id = model_->result(nodes_[left].rank);
        nodes_[left].next = nodes_[right].next;
        nodes_[right].rank = BpeModel::no_rank;
        if (nodes_[left].next != nowhere) nodes_[nodes_[left].next].previous = left;
        push_pair(left);
        if (nodes_[left].previous != nowhere) push_pair(nodes_[left].previous);
    }
    for (u32 i = 0; i != nowhere; i = nodes_[i].next) ids_.push_back(nodes_[i].id);
}

}  // namespace lm::text
