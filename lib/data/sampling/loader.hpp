// SPDX-License-Identifier: Apache-2.0
// The loader of a training run. One thread fills its micro-batches in advance. The whole state of
// the loader is one integer: the number of samples that the run has consumed. The samples of an
// iteration have consecutive numbers. So the samples of an iteration depend neither on the
// micro-batch size nor on the data-parallel size, and a resumed run reads the same samples.
#pragma once

#include <memory>

#include "data/sampling/batch.hpp"

namespace lm::data {

class Loader {
  public:
    // Rank `dp_rank` of `dp_size` reads samples [dp_rank*B, (dp_rank+1)*B) of each dp_size*B
    // samples, where B is options.micro_batch. `source` must outlive the loader. A thread fills
    // `n_ahead` batches in advance, or fewer when they would take more than 16 MiB; with 0 there is
    // no thread.
    Loader(const SampleSource& source, const BatchOptions& options, i64 first_sample,
           i64 dp_size = 1, i64 dp_rank = 0, int n_ahead = 64);
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
