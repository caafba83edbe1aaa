// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/vocabulary.hpp"

#include <bit>

#include "base/hash.hpp"

namespace lm::text {

TokenIndex::TokenIndex(const std::vector<std::string>& tokens, const std::string& path)
    : tokens_(&tokens), slots_(std::bit_ceil(2 * tokens.size() + 2)) {
    for (size_t id = 0; id < tokens.size(); ++id) {
        if (tokens[id].empty()) continue;
        const u64 hash = hash64(tokens[id]);
        Slot& slot = slots_[slot_of(tokens[id], hash)];
        if (slot.id >= 0)
            run_error(path, "duplicate token '{}' (ids {} and {})", tokens[id], slot.id, id);
        slot = {static_cast<u32>(hash >> 32), static_cast<i32>(id)};
    }
}

size_t TokenIndex::slot_of(std::string_view token, u64 hash) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        const Slot& slot = slots_[at];
        if (slot.id < 0) return at;
        if (slot.hash == hash >> 32 && (*tokens_)[static_cast<size_t>(slot.id)] == token) return at;
    }
}

TokenIndex::Sought TokenIndex::seek(std::string_view token) const {
    const u64 hash = hash64(token);
    __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
    return {token, hash};
}

i32 TokenIndex::find(Sought sought) const {
    return slots_[slot_of(sought.token, sought.hash)].id;
}

std::string MergeReader::not_there(std::string_view token) const {
    return fmt::format("token '{}' is not in the vocabulary {}", token, vocab_path_);
}

// Returns the id of the token `both_`, or -1. Tries the previous result and the id after it first,
// because the results of merges are usually in the order of ids, with one or several merges for
// each id.
i32 MergeReader::find_result() const {
    for (const size_t id : {last_result_, last_result_ + 1})
        if (index_->has(id, both_)) return static_cast<i32>(id);
    return index_->find(both_);
}

// Adds the merge and returns an empty string, or returns the error message. As in Hugging Face
// tokenizers, a merge that is listed twice has its last rank.
std::string MergeReader::try_add(std::string_view left, std::string_view right) {
    const TokenIndex::Sought first = index_->seek(left), second = index_->seek(right);
    const i32 a = index_->find(first);
    if (a < 0) return not_there(left);
    const i32 b = index_->find(second);
    if (b < 0) return not_there(right);
    both_.assign(left).append(right);
    const i32 result = find_result();
    if (result < 0) return not_there(both_);
    last_result_ = static_cast<size_t>(result);
    i32& last = last_of_[static_cast<size_t>(result)];
    for (i32 m = last; m >= 0; m = previous_[static_cast<size_t>(m)]) {
        Merge& earlier = merges_[static_cast<size_t>(m)];
        if (earlier.left == a) earlier.left = repeated;
    }
    previous_.push_back(last);
    last = static_cast<i32>(merges_.size());
    merges_.push_back({a, b, result});
    return "";
}

}  // namespace lm::text
