// SPDX-License-Identifier: Apache-2.0
#include "preprocess/chunk_pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/threads.hpp"
#include "io/stream.hpp"

namespace lm::preprocess {
namespace {

constexpr auto check_interval = std::chrono::milliseconds(200);

// Bytes of a chunk of ordinary lines with its ids. This memory is not charged to the budget.
constexpr i64 ordinary_bytes = i64{4} << 20;

// Returns how many bytes a long line may need in addition to its own bytes: for the decoded text, a
// copy of the line with replaced bad bytes, two buffers of the normalizer, and the ids.
i64 max_besides(i64 line_bytes, const EncodeRules& rules, const text::Tokenizer& tokenizer) {
    const i64 ids = std::min((rules.wide ? 4 : 2) * line_bytes,
                             static_cast<i64>(rules.keys.size()) * KeyTokens::max_bytes);
    const i64 copies =
        1 + (rules.on_bad_line == OnBadLine::replace ? 1 : 0) + (tokenizer.normalizes() ? 2 : 0);
    return copies * line_bytes + ids;
}

}  // namespace

ChunkPipeline::ChunkPipeline(data::ChunkReader& reader, const EncodeRules& rules,
                             const text::Tokenizer& tokenizer, MemoryBudget& budget, int n_workers)
    : reader_(reader),
      rules_(rules),
      tokenizer_(tokenizer),
      budget_(budget),
      n_workers_(n_workers),
      slots_(static_cast<size_t>(2 * n_workers + 1)) {}

void ChunkPipeline::start() {
    reader_.before_growing([this](i64 bytes) { acquire_for_long_line(bytes); });
    // The encoders are created in this thread, so that the caller gets the exception when there is
    // not enough memory for them.
    const i64 text_bytes = reader_.most_bytes();
    for (int i = 0; i < n_workers_; ++i) encoders_.emplace_back(rules_, tokenizer_, text_bytes);
    for (ChunkEncoder& encoder : encoders_)
        threads_.push_back(start_thread([this, &encoder] { work(encoder); }));
}

ChunkPipeline::~ChunkPipeline() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    budget_.wake();
    reader_.interrupt();
    for (std::thread& thread : threads_) thread.join();
    reader_.before_growing({});
    for (Slot& slot : slots_) budget_.release(slot.charged);
}

std::optional<ChunkPipeline::Item> ChunkPipeline::next(const std::function<void()>& check) {
    if (has_item_) release_item();
    Slot& slot = slot_of(emptied_);
    if (!wait_for_item(slot, check)) return std::nullopt;
    if (!slot.ahead && slot.error) std::rethrow_exception(slot.error);
    has_item_ = true;
    return Item{&slot.encoded, slot.ahead};
}

// If a worker still encodes the chunk of the slot, gives the slot back to this worker; otherwise
// frees it for another chunk.
void ChunkPipeline::release_item() {
    has_item_ = false;
    Slot& slot = slot_of(emptied_);
    if (slot.ahead) {
        set_ahead(slot, std::nullopt);
        return;
    }
    slot.encoded.release_large();
    const i64 charged = std::exchange(slot.charged, 0);
    {
        const std::lock_guard lock(mutex_);
        slot.full = false;
        ++emptied_;  // frees the slot for chunk emptied_ - 1 + slots_.size()
    }
    changed_.notify_all();
    budget_.release(charged);
}

// Blocks until `slot` has an item. Returns false when there is no further item.
bool ChunkPipeline::wait_for_item(const Slot& slot, const std::function<void()>& check) {
    const auto is_ready = [&] {
        return slot.full || slot.ahead || (end_ >= 0 && emptied_ >= end_);
    };
    for (;; check()) {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, check_interval, is_ready)) return slot.full || slot.ahead;
    }
}

void ChunkPipeline::set_ahead(Slot& slot, std::optional<size_t> key) {
    {
        const std::lock_guard lock(mutex_);
        slot.ahead = key;
    }
    changed_.notify_all();
}

// Blocks until the consumer has used the ids that `slot` holds under `key`. To keep the ids in
// order, the function first waits until the consumer reaches this slot.
void ChunkPipeline::hand_over(Slot& slot, size_t key) {
    const auto wait_until = [this](const auto& done) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || done(); });
        if (stop_) throw io::Interrupted();
    };
    wait_until([&] { return &slot_of(emptied_) == &slot; });
    set_ahead(slot, key);
    wait_until([&] { return !slot.ahead; });
}

// Acquires from the budget the memory that a long line of `bytes` may need. The reader calls this
// before it allocates the memory; read_mutex_ is locked. The call may block until earlier chunks
// are written, but never until a later chunk is written, so there is no deadlock.
void ChunkPipeline::acquire_for_long_line(i64 bytes) {
    const i64 most = bytes + max_besides(bytes, rules_, tokenizer_);
    const auto turn = [this] {
        const std::lock_guard lock(mutex_);
        return stop_ || end_ >= 0  ? MemoryBudget::Turn::stopped
               : read_ == emptied_ ? MemoryBudget::Turn::next
                                   : MemoryBudget::Turn::later;
    };
    if (!budget_.acquire(this, most, turn)) throw io::Interrupted();
    slot_of(read_).charged += most;
}

// Replaces the estimated charge of the slot in the budget by the memory that the chunk and its ids
// use, minus ordinary_bytes, which are never charged.
void ChunkPipeline::settle_charge(Slot& slot) {
    const i64 needed = std::max<i64>(0, slot.encoded.memory() - ordinary_bytes);
    const i64 before = std::exchange(slot.charged, needed);
    if (needed > before) budget_.add(needed - before);
    if (needed < before) budget_.release(before - needed);
}

// Reads the next chunk into a free slot. Returns nullptr when there are no more chunks to encode.
ChunkPipeline::Slot* ChunkPipeline::read_chunk() {
    const std::lock_guard reading(read_mutex_);
    const i64 number = read_;
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
            return stop_ || end_ >= 0 || number < emptied_ + static_cast<i64>(slots_.size());
        });
        if (stop_ || end_ >= 0) return nullptr;
    }
    Slot& slot = slot_of(number);
    bool more = true;
    try {
        more = reader_.next(slot.encoded.chunk);
        slot.encoded.compressed_bytes = reader_.compressed_bytes_read();
    } catch (...) {
        slot.error = std::current_exception();
    }
    ++read_;  // read_mutex_ guards read_: one worker reads at a time
    if (!more || slot.error) {
        const std::lock_guard lock(mutex_);
        end_ = more ? number + 1 : number;
        slot.full = more;
        changed_.notify_all();
        return nullptr;
    }
    return &slot;
}

void ChunkPipeline::work(ChunkEncoder& encoder) {
    while (Slot* slot = read_chunk()) {
        try {
            encoder.encode(slot->encoded, [this, slot](size_t key) { hand_over(*slot, key); });
        } catch (...) {
            slot->error = std::current_exception();
        }
        settle_charge(*slot);
        {
            const std::lock_guard lock(mutex_);
            slot->full = true;
        }
        changed_.notify_all();
    }
}

}  // namespace lm::preprocess
