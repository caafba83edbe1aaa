// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/merges/pretoken_encoder.hpp"

#include <algorithm>
#include <functional>
#include <string>

namespace lm::text {
namespace {

constexpr u32 short_limit = 48;  // encode_long() is faster for longer parts; a position has 6 bits
constexpr u32 nowhere = 0xFFFF'FFFF;

}  // namespace

std::span<const i32> PretokenEncoder::encode(std::string_view pretoken) {
    ids_.clear();
    size_t begin = 0;
    for (size_t i = 1; i < pretoken.size(); ++i) {
        if (model_->may_join(static_cast<u8>(pretoken[i - 1]), static_cast<u8>(pretoken[i])))
            continue;
        encode_part(pretoken.substr(begin, i - begin));
        begin = i;
    }
    operations_ += pretoken.size();
    if (begin < pretoken.size()) encode_part(pretoken.substr(begin));
    return ids_;
}

// Returns whether the bytes of two adjacent tokens encode to exactly these two tokens. If this
// holds for every two neighbours of a sequence of tokens, the sequence is the encoding of its
// bytes, for any merges. Proof: suppose that BPE encodes the whole sequence, and take its first
// merge that crosses from one token into the next. Before this merge, the bytes of each token are
// merged as if the token were alone. The merges inside the two tokens also have the same order as
// when BPE encodes only these two, because the lowest rank is first in both cases. So BPE also does
// the crossing merge when it encodes only the two tokens, which then do not encode to themselves.
bool PretokenEncoder::are_final(i32 left, i32 right) {
    const std::string both = std::string(model_->token(left)) + std::string(model_->token(right));
    const std::span<const i32> ids = encode(both);
    return ids.size() == 2 && ids[0] == left && ids[1] == right;
}

void PretokenEncoder::begin_window(std::string_view pretoken, size_t window) {
    const std::span<const i32> ids = encode(pretoken.substr(0, window));
    ids_of_window_.assign(ids.begin(), ids.end());
}

// Finds a cut in the window, whose ids are in ids_of_window_. The text after the window may change
// the last tokens of the window. So this function removes tokens from the end of the window until
// the tokens on both sides of the cut are_final(). Returns the offset of the cut; following_ then
// holds the ids of the window that begins at the cut. Returns 0 if there is no cut.
size_t PretokenEncoder::cut_window(std::string_view pretoken, size_t window) {
    constexpr int max_tries = 8;
    const size_t least = window / 2, most = window - window / 8;
    size_t size = window;
    for (int tries = 0; tries < max_tries; ++tries) {
        do {
            if (ids_of_window_.empty()) return 0;
            size -= model_->token(ids_of_window_.back()).size();
            ids_of_window_.pop_back();
        } while (size > most);
        if (size < least || ids_of_window_.empty()) return 0;
        const std::span<const i32> ids = encode(pretoken.substr(size, window));
        following_.assign(ids.begin(), ids.end());
        if (are_final(ids_of_window_.back(), following_.front())) return size;
    }
    return 0;
}

void PretokenEncoder::encode_part(std::string_view part) {
    if (part.size() == 1) {
        ids_.push_back(model_->byte_id(static_cast<u8>(part[0])));
    } else if (part.size() <= short_limit) {
        encode_short(part);
    } else {
        encode_long(part);
    }
}

// Encodes a short part. Scans all pairs to find the next merge. A token stays at the position of
// its first byte, and `next` and `previous` link the tokens. The next merge is the minimum of rank
// << 6 | position, which needs no branches.
void PretokenEncoder::encode_short(std::string_view part) {
    constexpr u32 none = ~0U;
    const auto pack = [](u32 rank_of_pair, u32 i) {
        return rank_of_pair == BpeModel::no_rank ? none : rank_of_pair << 6 | i;
    };
    i32 ids[short_limit];
    u32 pairs[short_limit];  // rank << 6 | i, for the pair of the token at i and the next one
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

// Looks up the pair of `left` and the next token, and pushes the pair if it has a merge.
void PretokenEncoder::push_pair(u32 left) {
    Node& node = nodes_[left];
    node.rank = node.next == nowhere ? BpeModel::no_rank : rank(node.id, nodes_[node.next].id);
    if (node.rank == BpeModel::no_rank) return;
    heap_.push_back(static_cast<u64>(node.rank) << 32 | left);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

// Encodes a long part. A heap holds the pairs that have a merge, ordered by rank, then position.
// encode_short() scans all pairs for each merge instead.
void PretokenEncoder::encode_long(std::string_view part) {
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
        // Pairs are deleted lazily. A pair that changed after the push now has another rank, or
        // none, and is skipped.
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
