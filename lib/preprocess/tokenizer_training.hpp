// SPDX-License-Identifier: Apache-2.0
// lm-preprocess train-tokenizer: counts the pre-tokens of a corpus, learns a byte-level BPE from
// the counts, and writes the tokenizer's files.
#pragma once

#include <functional>
#include <string>

#include "io/atomic.hpp"
#include "preprocess/corpus_counter.hpp"
#include "text/bpe/bpe_trainer.hpp"
#include "text/tokenizer_json/write_tokenizer.hpp"

namespace lm::preprocess {

struct TrainingOptions {
    CorpusOptions corpus;
    text::TokenizerDesign design;
    i64 vocab_size = 0;     // tokens of the finished vocabulary
    i64 min_frequency = 2;  // pairs that occur less often are not merged
};

struct TrainingResult {
    text::TrainedBpe bpe;
    CorpusTotals totals;
    i64 distinct_pretokens = 0;
    i64 dropped_count = 0;  // pre-tokens with this count or less may be missing; 0: none
    double count_s = 0, merge_s = 0;
};

struct TrainingProgress {
    std::function<void(i64 bytes, i64 n_distinct)> counted;
    std::function<void()> counting_ends;
    std::function<void(i64 n_tokens)> merged;
};

// Trains a tokenizer. Throws Error(failure) when the corpus has no text.
TrainingResult train_tokenizer(const TrainingOptions& options, const TrainingProgress& progress);

// Throws Error(usage) when the parent of `directory` does not exist. Also throws when `directory`
// exists, unless `force` is set and the directory contains only the files of a tokenizer.
void check_tokenizer_directory(const std::string& directory, bool force);

// Writes vocab.json, merges.txt, tokenizer.json and tokenizer_config.json to `directory`. The
// directory gets its name after all files were written. With Overwrite::yes it replaces an existing
// directory.
void write_tokenizer(const std::string& directory, io::Overwrite overwrite,
                     const text::TrainedBpe& bpe, const text::TokenizerDesign& design);

}  // namespace lm::preprocess
