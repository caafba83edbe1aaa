// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/bpe_trainer.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "text/bpe/byte_map.hpp"

namespace lm::text {

BpeTrainer::BpeTrainer(const std::vector<std::string>& special)
    : n_special_(static_cast<i32>(special.size())) {
    const auto add_token = [&](const std::string& token) {
        const auto id = static_cast<i32>(trained_.tokens.size());
        if (!ids_.emplace(token, id).second)
            usage_error("special token", "'{}' is a duplicate, or the token of a byte", token);
        trained_.tokens.push_back(token);
        return id;
    };
    for (const std::string& token : special) add_token(token);
    // Adds all bytes as tokens, in the order of their characters in the byte map.
    std::array<int, 256> bytes;
    std::iota(bytes.begin(), bytes.end(), 0);
    std::ranges::sort(bytes, {}, [](int byte) { return char_of_byte(static_cast<u8>(byte)); });
    for (const int byte : bytes) {
        const char raw = static_cast<char>(byte);
        byte_ids_[byte] = add_token(token_of_bytes({&raw, 1}));
    }
}

void BpeTrainer::add(std::string_view pretoken, i64 count) {
    words_.push_back({symbols_.size(), static_cast<u32>(pretoken.size())});
    counts_.push_back(count);
    for (const char c : pretoken) symbols_.push_back(byte_ids_[static_cast<u8>(c)]);
}

u32 BpeTrainer::pair_of(i32 left, i32 right) {
    const u64 key = static_cast<u64>(left) << 32 | static_cast<u32>(right);
    const auto [at, fresh] = pair_ids_.try_emplace(key, static_cast<u32>(pairs_.size()));
    if (fresh) pairs_.push_back({left, right});
    return at->second;
}

void BpeTrainer::count_pairs() {
    for (u32 w = 0; w < words_.size(); ++w) {
        const i32* symbols = symbols_.data() + words_[w].begin;
        for (u32 i = 0; i + 1 < words_[w].size; ++i)
            change(symbols[i], symbols[i + 1], counts_[w], w);
    }
}

void BpeTrainer::push(u32 pair) {
    const Pair& p = pairs_[pair];
    if (p.count > 0) queue_.push({p.count, p.left, p.right, pair});
}

// Adds `by` to the count of a pair, for an occurrence in `word`. A pair whose count rises is pushed
// to the queue at the end of the step. When a count falls, the queue keeps the old entry with the
// higher count; train() replaces this entry when it reaches the top of the queue.
void BpeTrainer::change(i32 left, i32 right, i64 by, u32 word) {
    const u32 index = pair_of(left, right);
    Pair& pair = pairs_[index];
    pair.count += by;
    if (by <= 0) return;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    if (pair.raised == step_) return;
    pair.raised = step_;
    raised_.push_back(index);
}

// Returns the id of the result of a merge, and adds the token if it is new. Returns -1 if the
// result is a special token.
i32 BpeTrainer::result_of(const Pair& pair) {
    const std::string token = trained_.tokens[static_cast<size_t>(pair.left)] +
                              trained_.tokens[static_cast<size_t>(pair.right)];
    const auto [at, fresh] = ids_.try_emplace(token, static_cast<i32>(trained_.tokens.size()));
    if (at->second < n_special_) return -1;
    if (fresh) trained_.tokens.push_back(token);
    return at->second;
}

// Rewrites a word in place (it only becomes shorter), and counts the pairs that the rewriting
// removes and adds. The left neighbour of a merge is read from the rewritten part of the word. When
// two merges are adjacent, the left neighbour of the second is `result`, and change() corrects the
// pair (result, left) that the first merge counted. The count of (left, right) need not be exact
// here, because merge() sets it to 0.
void BpeTrainer::merge_word(u32 word, i32 left, i32 right, i32 result) {
    i32* const symbols = symbols_.data() + words_[word].begin;
    const u32 n = words_[word].size;
    const i64 count = counts_[word];
    u32 out = 0;
    for (u32 i = 0; i < n; ++out) {
        if (symbols[i] != left || i + 1 == n || symbols[i + 1] != right) {
            symbols[out] = symbols[i++];
            continue;
        }
        if (out > 0) {
            change(symbols[out - 1], left, -count, word);
            change(symbols[out - 1], result, count, word);
        }
        i += 2;
        if (i < n) {
            change(right, symbols[i], -count, word);
            change(result, symbols[i], count, word);
        }
        symbols[out] = result;
    }
    words_[word].size = out;
}

void BpeTrainer::merge(u32 index, i32 result) {
    const i32 left = pairs_[index].left;
    const i32 right = pairs_[index].right;
    const std::vector<u32> words = std::move(pairs_[index].words);
    pairs_[index].words.clear();
    if (!std::exchange(pairs_[index].merged, true))
        trained_.merges.push_back({left, right, result});
    ++step_;
    raised_.clear();
    for (const u32 word : words) merge_word(word, left, right, result);
    pairs_[index].count = 0;
    for (const u32 pair : raised_) push(pair);
}

TrainedBpe BpeTrainer::train(i64 vocab_size, i64 min_frequency,
                             const std::function<void(i64)>& progress) {
    count_pairs();
    for (const u32 pair : raised_) push(pair);
    const auto n_tokens = [&] { return static_cast<i64>(trained_.tokens.size()); };
    while (n_tokens() < vocab_size && !queue_.empty()) {
        const Candidate top = queue_.top();
        queue_.pop();
        const Pair& pair = pairs_[top.pair];
        if (top.count != pair.count) {  // the count has decreased since the push
            push(top.pair);
            continue;
        }
        if (top.count < min_frequency) break;
        const i32 result = result_of(pair);
        if (result >= 0) merge(top.pair, result);
        if (progress) progress(n_tokens());
    }
    for (size_t w = 0; w < words_.size(); ++w)
        trained_.corpus_tokens += counts_[w] * words_[w].size;
    return std::move(trained_);
}

}  // namespace lm::text
