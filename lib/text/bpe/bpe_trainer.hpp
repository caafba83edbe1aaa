// SPDX-License-Identifier: Apache-2.0
// Trains byte-level BPE (Sennrich et al. 2016, algorithm 1) on distinct pre-tokens with counts.
// Each step merges the adjacent pair with the highest count into a token. When several pairs have
// this count, it merges the pair with the smallest ids. The pairs are in a priority queue, and a
// merge visits only the pre-tokens that contain the pair. The result equals the result of Hugging
// Face's BpeTrainer.
#pragma once

#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/types.hpp"
#include "text/bpe/merges/bpe_model.hpp"

namespace lm::text {

struct TrainedBpe {
    std::vector<std::string>
        tokens;  // spelled as in the files: special tokens, 256 bytes, results of merges
    std::vector<Merge> merges;
    i64 corpus_tokens = 0;  // number of tokens that the added pre-tokens encode to
};

class BpeTrainer {
  public:
    // Special tokens get the first ids. No merge results in a special token, so no text encodes to
    // its id.
    explicit BpeTrainer(const std::vector<std::string>& special);

    void add(std::string_view pretoken, i64 count);

    // Merges until there are `vocab_size` tokens, or until no pair occurs at least `min_frequency`
    // times. Calls progress() with the number of tokens after each merge. Call train() only once.
    TrainedBpe train(i64 vocab_size, i64 min_frequency,
                     const std::function<void(i64)>& progress = nullptr);

  private:
    struct Word {
        u64 begin;  // offset in symbols_
        u32 size;
    };
    struct Pair {
        i32 left, right;
        i64 count = 0;
        std::vector<u32> words;  // words that contain the pair or contained it earlier
        i64 raised = -1;         // the last step that raised the count
        bool merged = false;
    };
    struct Candidate {
        i64 count;
        i32 left, right;
        u32 pair;
        bool operator<(const Candidate& other) const {  // a smaller candidate is merged later
            if (count != other.count) return count < other.count;
            if (left != other.left) return left > other.left;
            return right > other.right;
        }
    };

    u32 pair_of(i32 left, i32 right);
    void count_pairs();
    void push(u32 pair);
    void change(i32 left, i32 right, i64 by, u32 word);
    i32 result_of(const Pair& pair);
    void merge(u32 pair, i32 result);
    void merge_word(u32 word, i32 left, i32 right, i32 result);

    TrainedBpe trained_;
    std::unordered_map<std::string, i32> ids_;
    i32 n_special_;
    i32 byte_ids_[256];

    std::vector<i32> symbols_;
    std::vector<Word> words_;
    std::vector<i64> counts_;  // occurrences of each word
    std::vector<Pair> pairs_;
    std::unordered_map<u64, u32> pair_ids_;
    std::priority_queue<Candidate> queue_;
    std::vector<u32> raised_;  // pairs whose count the current step raised
    i64 step_ = 0;             // number of merges done
};

}  // namespace lm::text
