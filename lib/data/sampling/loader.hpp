// SPDX-License-Identifier: Apache-2.0
// Micro-batches for the training step, filled ahead by one thread of this process. The loader's
// whole state is one integer: how many samples of the run have been taken. The samples of an
// iteration are consecutive numbers, so another micro-batch or data-parallel size, or a resume,
// gives the same samples in the same iterations.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/types.hpp"
#include "data/sampling/sample_source.hpp"

namespace lm::data {

// What a batch holds besides tokens and targets; documents are told apart by their last token.
struct BatchOptions {
    i64 micro_batch = 1;
    std::optional<i64> eod_id;          // needed by the three flags below
    bool reset_position_ids = false;    // positions restart at 0 after each eod
    bool reset_attention_mask = false;  // document_starts are filled
    bool eod_mask_loss = false;         // what is predicted from an eod does not count

    // Throws Error(usage) when a flag is set and eod_id is not.
    void check() const;
};

// B x T, row-major; empty vectors where the option is off.
struct Batch {
    i64 n_rows = 0;      // B
    i64 seq_length = 0;  // T
    std::vector<i32> tokens;
    std::vector<i32> targets;          // tokens[t + 1]
    std::vector<i64> sample_ids;       // B: global sample numbers
    std::vector<i32> positions;        // with reset_position_ids
    std::vector<i32> document_starts;  // with reset_attention_mask: first key a query may see
    std::vector<float> loss_mask;      // with eod_mask_loss: 1 or 0

    Batch() = default;
    Batch(i64 seq_length, const BatchOptions& options);
};

// Fills `batch` (made with the same options) with samples [first_sample, first_sample + B).
// Allocates nothing but a row of tokens on first use of a thread.
void fill_batch(const SampleSource& source, const BatchOptions& options, i64 first_sample,
                Batch& batch);

// Fills the three optional fields of one row from its input tokens.
void mark_documents(std::span<const i32> tokens, i64 eod_id, std::span<i32> positions,
                    std::span<i32> document_starts, std::span<float> loss_mask);

// The first `seq_length` tokens of each row of `full`, into `batch`, whose memory is reused:
// Megatron-DeepSpeed's truncation of a curriculum. The last target is the token that follows.
void truncate(const Batch& full, i64 seq_length, Batch& batch);

class Loader {
  public:
    // Rank `dp_rank` of `dp_size` takes rows [dp_rank*B, (dp_rank+1)*B) of each chunk of dp_size*B
    // samples. `source` must outlive the loader. `n_ahead` batches (0: none, no thread) are filled
    // before they are asked for.
    Loader(const SampleSource& source, const BatchOptions& options, i64 first_sample,
           i64 dp_size = 1, i64 dp_rank = 0, int n_ahead = 2);
    ~Loader();
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    // This rank's next micro-batch; it stays valid until the following call. Rethrows what the
    // source threw; Error(usage) when the source has no samples left.
    const Batch& next();

    // Samples taken by all ranks so far, counted from the start of the run.
    i64 position() const;
    // Goes on with sample `sample`: after skipped batches, or a rollback.
    void seek(i64 sample);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::data
