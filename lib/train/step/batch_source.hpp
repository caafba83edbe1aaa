// SPDX-License-Identifier: Apache-2.0
// The source of the micro-batches of a step or an evaluation.
#pragma once

#include "data/sampling/loader.hpp"

namespace lm::train {

class BatchSource {
  public:
    virtual ~BatchSource() = default;
    // Returns this data-parallel rank's next micro-batch. It stays valid until the next call.
    virtual const data::Batch& next() = 0;
};

// Returns the micro-batches of a loader. With a curriculum, returns only the first tokens of each
// sequence.
class LoaderBatches final : public BatchSource {
  public:
    // `loader` outlives this object.
    explicit LoaderBatches(data::Loader& loader) : loader_(loader) {}

    // Sets the length of the sequences that next() returns; 0: the length of the loader's
    // sequences.
    void set_seq_length(i64 seq_length) { seq_length_ = seq_length; }

    const data::Batch& next() override {
        const data::Batch& full = loader_.next();
        if (seq_length_ == 0 || seq_length_ == full.seq_length) return full;
        data::truncate(full, seq_length_, truncated_);
        return truncated_;
    }

  private:
    data::Loader& loader_;
    i64 seq_length_ = 0;
    data::Batch truncated_;
};

// Returns the same micro-batch in every call.
class RepeatedBatch final : public BatchSource {
  public:
    // `batch` outlives this object.
    explicit RepeatedBatch(const data::Batch& batch) : batch_(batch) {}
    const data::Batch& next() override { return batch_; }

  private:
    const data::Batch& batch_;
};

}  // namespace lm::train
