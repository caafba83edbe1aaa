// SPDX-License-Identifier: Apache-2.0
// The document, sample and shuffle index of Megatron's GPTDataset, bit-identical (gpt_dataset.py,
// helpers.cpp build_sample_idx, numpy's RandomState): windows over shuffled documents, and a
// shuffled order of these windows.
#pragma once

#include <array>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "data/sampling/sample_source.hpp"

namespace lm::data {

// The last epoch is shuffled separately when the run needs less than this fraction of it.
constexpr double nvidia_last_epoch = 0.80;      // Megatron-LM
constexpr double bigscience_last_epoch = 0.95;  // Megatron-DeepSpeed

// The generator of numpy.random.RandomState(seed): MT19937. The seed is below 2^32.
class NumpyRandom {
  public:
    explicit NumpyRandom(u32 seed) : engine_(seed) {}
    // Returns a uniform integer in [0, max] by masked rejection, as numpy's random_interval does.
    u64 interval(u64 max);
    // Shuffles by Fisher-Yates from the end, as numpy does. Draws 64 indices ahead and prefetches
    // their values, because a large shuffle spends most of its time waiting for memory.
    template <typename T>
    void shuffle(std::span<T> values) {
        std::array<u64, 64> places;
        for (size_t left = values.size(); left > 1;) {
            const size_t n = std::min(places.size(), left - 1);
            for (size_t k = 0; k < n; ++k) {
                places[k] = interval(left - 1 - k);
                __builtin_prefetch(&values[places[k]], 1);
            }
            for (size_t k = 0; k < n; ++k) std::swap(values[--left], values[places[k]]);
        }
    }

  private:
    std::mt19937 engine_;
};

struct EpochPlan {
    i64 n_epochs = 1;
    bool separate_last = false;
    i64 samples_before_last = 0;  // samples before the last epoch, if separate_last
    i64 n_samples = 0;            // in all epochs; at least the requested number
};
// Returns the epochs that `n_samples` samples need; 0 samples mean one epoch. Requires n_tokens >
// seq_length.
EpochPlan plan_epochs(i64 n_tokens, i64 seq_length, i64 n_samples, double last_epoch_threshold);

struct MegatronIndex {
    std::span<const i32> documents;  // shuffled sequence numbers, of all epochs
    // Window k goes from token offset[k] of documents[position[k]] to token offset[k + 1] of
    // documents[position[k + 1]], inclusive. `position` and `offset` have [windows + 1] entries.
    std::span<const i64> position;
    std::span<const i32> offset;
    std::span<const i64> order;          // [samples] window of each sample, shuffled
    std::shared_ptr<const void> memory;  // owns the memory of the spans

    // Builds the index, with the same bits for any number of threads. The shuffles use one stream
    // of random numbers, so one thread computes them while other threads divide the documents into
    // windows.
    static MegatronIndex build(const TokenRange& range, i64 seq_length, const EpochPlan& plan,
                               u32 seed, int n_threads = 1);
};

// Stores the index in a file that all processes of a node map. The first process builds the file,
// and the others wait for it. The file name contains a digest of everything that determines the
// index, so an existing file with this name is always the right one, and it is always complete.
struct IndexCache {
    std::string directory;  // empty: every process builds its own index in memory
    i64 least_bytes = 0;    // a smaller index is built in memory
};

// Returns a directory below $TMPDIR or /tmp to which only this user can write. Creates it if
// necessary. Returns an empty string when there is no such directory.
std::string private_index_directory();

// Returns the index from the cache. If the cache does not have it, builds it with `n_threads`
// threads and stores it. When the cache cannot be written, warns and returns an index in memory.
MegatronIndex shared_index(const IndexCache& cache, const TokenRange& range, i64 seq_length,
                           const EpochPlan& plan, u32 seed, int n_threads);

}  // namespace lm::data
