// SPDX-License-Identifier: Apache-2.0
// A source of training samples of seq_length + 1 token ids each. A sample depends only on the data,
// the seed and the sample number, so any process may read any sample at any time, in any order and
// from several threads. A source checks the ids against the model's vocabulary.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/sampling/split.hpp"

namespace lm::data {

constexpr i64 endless = std::numeric_limits<i64>::max();

// Part of a sample: tokens [offset, offset + count) of one sequence.
struct TokenSpan {
    const IndexedDataset* dataset = nullptr;
    i64 sequence = 0;
    i64 offset = 0;
    i64 count = 0;
};

// How the first n samples of a source use one dataset, for the log before step 1.
struct DatasetUse {
    std::string prefix;
    SequenceRange sequences;
    i64 tokens = 0;         // tokens of `sequences`
    i64 epoch_samples = 0;  // samples of one epoch
    i64 samples = 0;        // how many of the n samples come from this dataset
    double weight = 0;      // samples / n
    double epochs = 0;      // samples / epoch_samples
};

class SampleSource {
  public:
    explicit SampleSource(i64 seq_length) : seq_length_(seq_length) {}
    virtual ~SampleSource() = default;
    SampleSource(const SampleSource&) = delete;
    SampleSource& operator=(const SampleSource&) = delete;

    i64 seq_length() const { return seq_length_; }
    // Returns the number of samples; `endless` when the order continues with another epoch after
    // each epoch.
    virtual i64 size() const = 0;
    // Writes the ids of `sample`, which is in [0, size()), to `tokens`: [seq_length + 1]. Throws
    // Error(failure) naming the file and the document when an id is outside the model's vocabulary,
    // or when the index is corrupt.
    virtual void fill(i64 sample, std::span<i32> tokens) const = 0;
    // Returns the parts of sequences that form a sample, in order. The sum of the counts is
    // seq_length + 1.
    virtual std::vector<TokenSpan> spans(i64 sample) const = 0;
    virtual std::vector<DatasetUse> use(i64 n_samples) const = 0;

  private:
    i64 seq_length_;
};

// A contiguous range of the sequences of one dataset, and the vocabulary that bounds its ids.
struct TokenRange {
    std::shared_ptr<const IndexedDataset> dataset;
    SequenceRange sequences;
    i64 vocab_size = 0;

    i64 first_token() const { return dataset->position(sequences.begin); }
    i64 n_tokens() const { return dataset->position(sequences.end) - first_token(); }
};

// Throws Error(usage) naming --seq-length when n_tokens is below seq_length + 1. `what` describes
// the range in the message: "the train split of P".
void check_tokens(i64 n_tokens, i64 seq_length, const std::string& what);

// Returns how the first n_samples samples use the range.
DatasetUse dataset_use(const TokenRange& range, i64 n_tokens, i64 seq_length, i64 n_samples);

// Reads tokens [position, position + out.size()) of the flat stream. Throws Error(failure) when an
// id is not below vocab_size.
void read_checked(const IndexedDataset& dataset, i64 vocab_size, i64 position, std::span<i32> out);

// Appends the spans of tokens [position, position + count) of the flat stream.
void append_spans(const IndexedDataset& dataset, i64 position, i64 count,
                  std::vector<TokenSpan>& spans);

}  // namespace lm::data
