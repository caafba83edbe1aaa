// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "base/error.hpp"

namespace lm::text {
namespace {

constexpr size_t short_limit = 48;  // above it the heap wins over scanning
constexpr u32 nowhere = 0xFFFF'FFFF;

}  // namespace

BpeModel::BpeModel(std::vector<std::string> tokens, std::array<i32, 256> byte_ids,
                   std::vector<Merge> merges)
    : tokens_(std::move(tokens)), byte_ids_(byte_ids), merges_(std::move(merges)) {
    const size_t n_slots = std::bit_ceil(std::max<size_t>(1024, merges_.size() * 2 + 2));
    slots_.assign(n_slots, Slot{empty, {no_rank, 0}});
    slot_mask_ = n_slots - 1;
    slot_shift_ = 64 - std::countr_zero(n_slots);
    for (size_t rank = 0; rank < merges_.size(); ++rank) {
        const Merge& merge = merges_[rank];
        const u64 key = key_of(merge.left, merge.right);
        size_t slot = slot_of(key);
        while (slots_[slot].key != empty) {
            LM_CHECK(slots_[slot].key != key, "duplicate merge");
            slot = (slot + 1) & slot_mask_;
        }
        slots_[slot] = {key, {static_cast<u32>(rank), merge.result}};
        // The joint is what counts: the pairs inside left and right have merges of their own.
        const auto a = static_cast<u8>(token(merge.left).back());
        const auto b = static_cast<u8>(token(merge.right).front());
        const unsigned bit = static_cast<unsigned>(a) << 8 | b;
        joins_[bit >> 6] |= u64{1} << (bit & 63);
    }
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

void PieceEncoder::encode_part(std::string_view part) {
    if (part.size() == 1) {
        ids_.push_back(model_->byte_id(static_cast<u8>(part[0])));
    } else if (part.size() <= short_limit) {
        encode_short(part);
    } else {
        encode_long(part);
    }
}

void PieceEncoder::encode_short(std::string_view part) {
    i32 ids[short_limit];
    BpeModel::Found pairs[short_limit];  // pairs[i] of (ids[i], ids[i+1])
    size_t n = part.size();
    for (size_t i = 0; i < n; ++i) ids[i] = model_->byte_id(static_cast<u8>(part[i]));
    for (size_t i = 0; i + 1 < n; ++i) pairs[i] = find(ids[i], ids[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; ++i) best = pairs[i].rank < pairs[best].rank ? i : best;
        operations_ += n;
        if (pairs[best].rank == BpeModel::no_rank) break;
        ids[best] = pairs[best].id;
        std::move(ids + best + 2, ids + n, ids + best + 1);
        std::move(pairs + best + 1, pairs + n - 1, pairs + best);
        --n;
        if (best > 0) pairs[best - 1] = find(ids[best - 1], ids[best]);
        if (best + 1 < n) pairs[best] = find(ids[best], ids[best + 1]);
    }
    ids_.insert(ids_.end(), ids, ids + n);
}

void PieceEncoder::push_pair(u32 left) {
    Node& node = nodes_[left];
    node.rank = BpeModel::no_rank;
    if (node.next == nowhere) return;
    const BpeModel::Found found = find(node.id, nodes_[node.next].id);
    if (found.rank == BpeModel::no_rank) return;
    node.rank = found.rank;
    node.merged = found.id;
    heap_.push_back(static_cast<u64>(found.rank) << 32 | left);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void PieceEncoder::encode_long(std::string_view part) {
    const auto n = static_cast<u32>(part.size());
    nodes_.resize(n);
    heap_.clear();
    for (u32 i = 0; i < n; ++i) {
        nodes_[i] = {model_->byte_id(static_cast<u8>(part[i])), i == 0 ? nowhere : i - 1,
                     i + 1 == n ? nowhere : i + 1, BpeModel::no_rank, 0};
    }
    for (u32 i = 0; i + 1 < n; ++i) push_pair(i);
    while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        const u64 top = heap_.back();
        heap_.pop_back();
        ++operations_;
        const auto left = static_cast<u32>(top);
        // A pair that has changed since it was pushed carries another rank, or none.
        if (nodes_[left].rank != static_cast<u32>(top >> 32)) continue;
        const u32 right = nodes_[left].next;
        nodes_[left].id = nodes_[left].merged;
        nodes_[left].next = nodes_[right].next;
        nodes_[right].rank = BpeModel::no_rank;
        if (nodes_[left].next != nowhere) nodes_[nodes_[left].next].previous = left;
        push_pair(left);
        if (nodes_[left].previous != nowhere) push_pair(nodes_[left].previous);
    }
    for (u32 i = 0; i != nowhere; i = nodes_[i].next) ids_.push_back(nodes_[i].id);
}

}  // namespace lm::text
