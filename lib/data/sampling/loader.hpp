// SPDX-License-Identifier: Apache-2.0
// Returns the micro-batches of a training run, which one thread fills in advance. The whole state
// of the loader is one integer: the number of samples that the run has consumed. The samples of an
// iteration have consecutive numbers. Therefore an iteration has the same samples with another
// micro-batch size, with another data-parallel size and after a resume.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/types.hpp"
#include "data/sampling/sample_source.hpp"

namespace lm::data {

// Selects the fields of a batch besides tokens and targets. A document ends with eod_id.
struct BatchOptions {
    i64 micro_batch = 1;
    std::optional<i64> eod_id;          // needed by the three flags below
    bool reset_position_ids = false;    // positions restart at 0 after each eod
    bool reset_attention_mask = false;  // Batch::document_starts is filled
    bool eod_mask_loss = false;         // the loss of a prediction from an eod is 0

    // Throws Error(usage) when a flag is set and eod_id is not.
    void check() const;
};

// A micro-batch. The vectors of options that are off are empty.
struct Batch {
    i64 n_rows = 0;               // B
    i64 seq_length = 0;           // T
    std::vector<i32> tokens;      // [B, T]
    std::vector<i32> targets;     // [B, T] the token after each of `tokens`
    std::vector<i64> sample_ids;  // [B] global sample numbers
    std::vector<i32> positions;   // [B, T] with reset_position_ids
    // [B, T] with reset_attention_mask: the first position to which the token may attend.
    std::vector<i32> document_starts;
    std::vector<float> loss_mask;  // [B, T] with eod_mask_loss: 1 or 0

    Batch() = default;
    Batch(i64 seq_length, const BatchOptions& options);
};

// Fills `batch` with samples [first_sample, first_sample + B). `batch` must be constructed with the
// same options. The first call in a thread allocates one row of tokens, later calls nothing.
void fill_batch(const SampleSource& source, const BatchOptions& options, i64 first_sample,
                Batch& batch);

// Fills the three optional fields of one row from its input tokens, [T]. Each field is [T] or
// empty.
void mark_documents(std::span<const i32> tokens, i64 eod_id, std::span<i32> positions,
                    std::span<i32> document_starts, std::span<float> loss_mask);

// Copies the first `seq_length` tokens of each row of `full` to `batch`, for the curriculum of
// Megatron-DeepSpeed. The memory of `batch` is reused. The last target of a row is the token that
// follows in `full`.
void truncate(const Batch& full, i64 seq_length, Batch& batch);

class Loader {
  public:
    // Rank `dp_rank` of `dp_size` reads samples [dp_rank*B, (dp_rank+1)*B) of each dp_size*B
    // samples, where B is options.micro_batch. `source` must outlive the loader. A thread fills
    // `n_ahead` batches in advance; with 0 there is no thread.
    Loader(const SampleSource& source, const BatchOptions& options, i64 first_sample,
           i64 dp_size = 1, i64 dp_rank = 0, int n_ahead = 2);
    ~Loader();
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    // Returns this rank's next micro-batch, valid until the next call. Throws the errors of the
    // source, and Error(usage) when the source has no more samples.
    const Batch& next();

    // Returns how many samples all ranks have consumed since the start of the run.
    i64 position() const;
    // Continues with sample `sample`, for example after skipped batches or a rollback.
    void seek(i64 sample);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::data
