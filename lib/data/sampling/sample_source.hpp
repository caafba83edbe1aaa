// SPDX-License-Identifier: Apache-2.0
// A source of training samples: sample number -> seq_length + 1 token ids. A pure function of
// (data, seed, sample number): any process may ask for any sample at any time, in any order, from
// several threads. What is read is checked against the model's vocabulary.
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

// What the first n samples of a source take from one dataset: for the plan printed before step 1.
struct DatasetUse {
    std::string prefix;
    SequenceRange sequences;
    i64 tokens = 0;         // in these sequences
    i64 epoch_samples = 0;  // samples of one pass
    i64 samples = 0;        // of the n
    double weight = 0;      // samples / n
    double epochs = 0;      // passes over the data that makes
};

class SampleSource {
  public:
    explicit SampleSource(i64 seq_length) : seq_length_(seq_length) {}
    virtual ~SampleSource() = default;
    SampleSource(const SampleSource&) = delete;
    SampleSource& operator=(const SampleSource&) = delete;

    i64 seq_length() const { return seq_length_; }
    // How many samples there are; `endless` for orders that go on with the next epoch.
    virtual i64 size() const = 0;
    // Writes the seq_length + 1 ids of sample `sample` in [0, size()). Throws Error(failure) naming
    // file and document when an id is outside the model's vocabulary or the index is damaged.
    virtual void fill(i64 sample, std::span<i32> tokens) const = 0;
    // Where these tokens come from, in order; the counts add up to seq_length + 1.
    virtual std::vector<TokenSpan> spans(i64 sample) const = 0;
    virtual std::vector<DatasetUse> use(i64 n_samples) const = 0;

  private:
    i64 seq_length_;
};

// A contiguous range of the sequences of one dataset, and the vocabulary its ids must lie in.
struct TokenRange {
    std::shared_ptr<const IndexedDataset> dataset;
    SequenceRange sequences;
    i64 vocab_size = 0;

    i64 first_token() const { return dataset->position(sequences.begin); }
    i64 n_tokens() const { return dataset->position(sequences.end) - first_token(); }
};

// Throws Error(usage) naming --seq-length when n_tokens is less than seq_length + 1; `what`
// describes the range: "the train split of P".
void check_tokens(i64 n_tokens, i64 seq_length, const std::string& what);

// What n_samples samples of such a range are.
DatasetUse dataset_use(const TokenRange& range, i64 n_tokens, i64 seq_length, i64 n_samples);

// Reads tokens [position, position + out.size()) of the flat stream and checks every id.
void read_checked(const IndexedDataset& dataset, i64 vocab_size, i64 position, std::span<i32> out);

// The spans that make up tokens [position, position + count) of the flat stream.
void append_spans(const IndexedDataset& dataset, i64 position, i64 count,
                  std::vector<TokenSpan>& spans);

}  // namespace lm::data
