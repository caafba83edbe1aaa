// SPDX-License-Identifier: Apache-2.0
// Training byte-level BPE (Sennrich et al. 2016, algorithm 1, over distinct pre-tokens with
// counts): again and again the adjacent pair that occurs most often becomes a token; of equal pairs
// the one of the smallest ids. Pairs wait in a priority queue, and a merge touches only the
// pre-tokens that hold it. The tokens are those of Hugging Face's BpeTrainer.
#pragma once

#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/types.hpp"
#include "text/bpe/bpe_model.hpp"

namespace lm::text {

struct TrainedBpe {
    std::vector<std::string> tokens;  // as files spell them: special ones, 256 bytes, merged ones
    std::vector<Merge> merges;
    i64 corpus_tokens = 0;  // what all that was added comes to
};

class BpeTrainer {
  public:
    // The special tokens get the first ids. No merge ever spells one of them, so that text alone
    // cannot make it.
    explicit BpeTrainer(const std::vector<std::string>& special);

    void add(std::string_view pretoken, i64 count);

    // Merges until there are `vocab_size` tokens, or no pair occurs `min_frequency` times.
    // `progress` hears of the number of tokens now and then. Call it once.
    TrainedBpe train(i64 vocab_size, i64 min_frequency,
                     const std::function<void(i64)>& progress = nullptr);

  private:
    struct Word {
        u64 begin;  // in symbols_
        u32 size;
    };
    struct Pair {
        i32 left, right;
        i64 count = 0;
        std::vector<u32> words;  // that hold it, or once did
        i64 raised = -1;         // the last step in which the count rose
        bool merged = false;
    };
    struct Candidate {
        i64 count;
        i32 left, right;
        u32 pair;
        bool operator<(const Candidate& other) const {  // comes after `other`
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
    std::vector<i64> counts_;  // of words_
    std::vector<Pair> pairs_;
    std::unordered_map<u64, u32> pair_ids_;
    std::priority_queue<Candidate> queue_;
    std::vector<u32> raised_;  // pairs whose count rose in this step
    i64 step_ = 0;
};

}  // namespace lm::text
