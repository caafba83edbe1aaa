// SPDX-License-Identifier: Apache-2.0
// The loader of a training run. One thread fills its micro-batches in advance. The whole state of
// the loader is one integer: the number of samples that the run has consumed. The samples of an
// iteration have consecutive numbers. So the samples of an iteration depend neither on the
// micro-batch size nor on the data-parallel size, and a resumed run reads the same samples.
//
// Why one thread and no workers. Python trainers start 2 to 16 loader processes a rank, because
// their samples are tokenized, collated and pickled by an interpreter. Here a sample is a copy of
// (seq_length + 1) ids from a mapped file, the order of samples is computed (permutation.hpp), and
// a training that takes 10,000 samples of 2048 tokens a second waits 0.03 % of its time for this
// one thread (bench/RESULTS.md). What remains to hide is the latency of cold pages on a shared file
// system, and reading 64 micro-batches ahead hides that, not more threads: 16 MiB at most.
//
// Without workers there is nothing to restart, to seed, to drain on a signal or to find dead: the
// whole state is one integer, which is what makes a bitwise resume with any number of ranks
// trivial. Nor is there a queue in /dev/shm between processes, which fills, and whose segments
// outlive a kill.
//
// A loader that decodes pictures or tokenizes on the fly would need workers; that belongs before
// the training (lm-preprocess), where it is done once and not in every epoch.
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
