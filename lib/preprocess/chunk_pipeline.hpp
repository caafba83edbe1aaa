// SPDX-License-Identifier: Apache-2.0
// Encodes the chunks of a reader on several threads and returns them in input order. The output
// therefore has the same bytes for any number of threads.
//
// The chunks are in a ring of slots. A free worker reads the next chunk (one worker reads at a
// time) and encodes it; the consumer empties the slots in the order in which they were read. The
// ring limits the memory for ordinary lines, the MemoryBudget limits it for long lines. A worker
// hands the ids of a very long text to the consumer in parts, while it encodes the rest of the
// text.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/jsonl/line_chunks.hpp"
#include "preprocess/chunk_encoder.hpp"
#include "preprocess/memory_budget.hpp"
#include "text/tokenizer.hpp"

namespace lm::preprocess {

class ChunkPipeline {
  public:
    // All arguments must outlive the pipeline. Its threads use `reader` until the pipeline is
    // destroyed.
    ChunkPipeline(data::ChunkReader& reader, const EncodeRules& rules,
                  const text::Tokenizer& tokenizer, MemoryBudget& budget, int n_workers);
    // Stops the threads, even within a chunk.
    ~ChunkPipeline();
    ChunkPipeline(const ChunkPipeline&) = delete;
    ChunkPipeline& operator=(const ChunkPipeline&) = delete;

    // Creates the encoders and starts the threads. Throws when there is not enough memory or the
    // system cannot create a thread.
    void start();

    // The next part of the output, in input order.
    struct Item {
        const EncodedChunk* chunk;
        // When set, a worker still encodes the chunk, and only the ids of this key are valid. These
        // ids precede the ids of the next items.
        std::optional<size_t> ahead;
    };
    // Blocks until the next item is complete and returns it; returns nullopt after the last item.
    // The item is valid until the next call. Calls `check` every 200 ms while it waits; `check` may
    // throw. After all previous chunks were returned, rethrows an exception of a worker or of the
    // reader.
    std::optional<Item> next(const std::function<void()>& check);

  private:
    struct Slot {
        EncodedChunk encoded;
        std::exception_ptr error;
        bool full = false;            // encoded, or failed
        std::optional<size_t> ahead;  // the key whose ids the consumer must use first
        i64 charged = 0;              // bytes acquired from the budget
    };

    Slot& slot_of(i64 number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }

    // The consumer calls these functions.
    void release_item();
    bool wait_for_item(const Slot& slot, const std::function<void()>& check);

    // The workers call these functions.
    void work(ChunkEncoder& encoder);
    Slot* read_chunk();
    void hand_over(Slot& slot, size_t key);
    void acquire_for_long_line(i64 bytes);
    void settle_charge(Slot& slot);
    void set_ahead(Slot& slot, std::optional<size_t> key);

    data::ChunkReader& reader_;
    const EncodeRules& rules_;
    const text::Tokenizer& tokenizer_;
    MemoryBudget& budget_;
    int n_workers_;
    std::vector<Slot> slots_;  // chunk number t is in slot t % slots_.size()

    std::mutex read_mutex_;  // guards reader_ and writes to read_; locked before mutex_
    std::mutex mutex_;       // guards emptied_, end_, stop_, and the slots' full and ahead
    std::condition_variable changed_;
    i64 read_ = 0;     // chunks that have been read
    i64 emptied_ = 0;  // chunks that the consumer has used
    i64 end_ = -1;     // number of chunks; -1 until the reader has ended
    bool stop_ = false;
    bool has_item_ = false;  // the consumer holds an item that next() must release

    std::vector<ChunkEncoder> encoders_;  // [workers]
    std::vector<std::thread> threads_;
};

}  // namespace lm::preprocess
