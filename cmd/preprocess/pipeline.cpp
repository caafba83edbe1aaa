// SPDX-License-Identifier: Apache-2.0
#include "pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/threads.hpp"

namespace lm::preprocess {
namespace {

constexpr auto most_silence = std::chrono::milliseconds(200);  // between two checks

// What a long line of so many bytes may need beside itself: for the text without escapes, for the
// line without bad bytes, for what the tokenizer's normalizer makes of it, and for a token a byte,
// as long as they are held.
i64 most_beside(i64 bytes, const EncodeRules& rules, const text::Tokenizer& tokenizer) {
    const i64 ids = std::min((rules.wide ? 4 : 2) * bytes,
                             static_cast<i64>(rules.keys.size()) * KeyTokens::most_bytes);
    const i64 copies =
        1 + (rules.on_bad_line == OnBadLine::replace ? 1 : 0) + (tokenizer.normalizes() ? 2 : 0);
    return copies * bytes + ids;
}

// A chunk of ordinary lines and its ids, for which there is room without asking.
constexpr i64 ordinary_bytes = i64{4} << 20;

// Slots in a ring: ticket t lives in slot t % n. Whoever is free reads the next chunk, encodes it
// and marks the slot full; the consumer empties slots in the order of tickets.
class Ring {
  public:
    // Where a thread cannot be made the destructor runs, since the other constructor is through.
    Ring(data::ChunkReader& reader, const EncodeRules& rules, const text::Tokenizer& tokenizer,
         MemoryBudget& budget, int n_workers)
        : Ring(reader, rules, tokenizer, budget, static_cast<size_t>(2 * n_workers + 1)) {
        reader_.before_growing([this](i64 bytes) { allow(bytes); });
        // Where there is no memory for one, that is said in the caller's thread.
        for (int i = 0; i < n_workers; ++i) encoders_.emplace_back(rules_, tokenizer_);
        for (ChunkEncoder& encoder : encoders_)
            threads_.push_back(start_thread([this, &encoder] { work(encoder); }));
    }

    ~Ring() {
        {
            const std::lock_guard lock(mutex_);
            stop_ = true;
        }
        changed_.notify_all();
        budget_.wake();
        reader_.interrupt();
        for (std::thread& thread : threads_) thread.join();
        reader_.before_growing({});
        for (Slot& slot : slots_) budget_.give_back(slot.charged);
    }

    void consume(const PipelineConsumer& consumer) {
        for (i64 ticket = 0;; ++ticket) {
            Slot& slot = slot_of(ticket);
            while (const std::optional<size_t> key = wait_full(slot, ticket, consumer.check)) {
                consumer.take_ahead(slot.result.keys[*key], *key);
                set_ahead(slot, std::nullopt);
            }
            if (!slot.full) return;
            if (slot.error) std::rethrow_exception(slot.error);
            consumer.take(slot.result);
            slot.result.release();
            const i64 charged = std::exchange(slot.charged, 0);
            {
                const std::lock_guard lock(mutex_);
                slot.full = false;
                emptied_ = ticket + 1;
            }
            changed_.notify_all();
            budget_.give_back(charged);
        }
    }

  private:
    struct Slot {
        ChunkResult result;
        std::exception_ptr error;
        bool full = false;
        std::optional<size_t> ahead;  // the key whose ids are to be taken before it is full
        i64 charged = 0;              // to the budget
    };

    Ring(data::ChunkReader& reader, const EncodeRules& rules, const text::Tokenizer& tokenizer,
         MemoryBudget& budget, size_t n_slots)
        : reader_(reader), rules_(rules), tokenizer_(tokenizer), budget_(budget), slots_(n_slots) {}

    Slot& slot_of(i64 ticket) { return slots_[static_cast<size_t>(ticket) % slots_.size()]; }

    // The key whose ids are to be taken ahead. None, and the slot is not full: the end.
    std::optional<size_t> wait_full(const Slot& slot, i64 ticket,
                                    const std::function<void()>& check) {
        const auto has_come = [&] {
            return slot.full || slot.ahead || (last_ >= 0 && ticket >= last_);
        };
        for (;; check()) {
            std::unique_lock lock(mutex_);
            if (changed_.wait_for(lock, most_silence, has_come)) return slot.ahead;
        }
    }

    void set_ahead(Slot& slot, std::optional<size_t> key) {
        {
            const std::lock_guard lock(mutex_);
            slot.ahead = key;
        }
        changed_.notify_all();
    }

    // In a worker: waits until the consumer has come to the slot and has taken the key's ids.
    void hand_over(Slot& slot, size_t key) {
        const auto wait_until = [this](const auto& done) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return stop_ || done(); });
            if (stop_) throw io::Interrupted();
        };
        wait_until([&] { return &slot_of(emptied_) == &slot; });
        set_ahead(slot, key);
        wait_until([&] { return !slot.ahead; });
    }

    // The chunk that is being read needs more than ordinary ones.
    void allow(i64 bytes) {
        const i64 most = bytes + most_beside(bytes, rules_, tokenizer_);
        const auto standing = [this] {
            const std::lock_guard lock(mutex_);
            return stop_ || last_ >= 0 ? MemoryBudget::Standing::stopped
                   : next_ == emptied_ ? MemoryBudget::Standing::is_next
                                       : MemoryBudget::Standing::waits;
        };
        if (!budget_.take(this, most, standing)) throw io::Interrupted();
        slot_of(next_).charged += most;
    }

    // What the chunk and its ids really need is known.
    void settle(Slot& slot) {
        const i64 needed = std::max<i64>(0, slot.result.memory() - ordinary_bytes);
        const i64 before = std::exchange(slot.charged, needed);
        if (needed > before) budget_.add(needed - before);
        if (needed < before) budget_.give_back(before - needed);
    }

    // The next ticket with its chunk read, or nullptr when there is nothing more to do.
    Slot* take_ticket() {
        const std::lock_guard reading(read_mutex_);
        const i64 ticket = next_;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] {
                return stop_ || last_ >= 0 || ticket < emptied_ + static_cast<i64>(slots_.size());
            });
            if (stop_ || last_ >= 0) return nullptr;
        }
        Slot& slot = slot_of(ticket);
        bool more = true;
        try {
            more = reader_.next(slot.result.chunk);
            slot.result.compressed_bytes = reader_.compressed_bytes_read();
        } catch (...) {
            slot.error = std::current_exception();
        }
        ++next_;
        if (!more || slot.error) {
            const std::lock_guard lock(mutex_);
            last_ = more ? ticket + 1 : ticket;
            slot.full = more;
            changed_.notify_all();
            return nullptr;
        }
        return &slot;
    }

    void work(ChunkEncoder& encoder) {
        while (Slot* slot = take_ticket()) {
            try {
                encoder.encode(slot->result, [this, slot](size_t key) { hand_over(*slot, key); });
            } catch (...) {
                slot->error = std::current_exception();
            }
            settle(*slot);
            {
                const std::lock_guard lock(mutex_);
                slot->full = true;
            }
            changed_.notify_all();
        }
    }

    data::ChunkReader& reader_;
    const EncodeRules& rules_;
    const text::Tokenizer& tokenizer_;
    MemoryBudget& budget_;
    std::vector<Slot> slots_;
    std::mutex read_mutex_;  // guards reader_ and next_
    std::mutex mutex_;       // guards the rest
    std::condition_variable changed_;
    i64 next_ = 0;
    i64 emptied_ = 0;
    i64 last_ = -1;  // number of tickets, once known
    bool stop_ = false;
    std::vector<ChunkEncoder> encoders_;  // one per thread
    std::vector<std::thread> threads_;
};

}  // namespace

void run_pipeline(data::ChunkReader& reader, const EncodeRules& rules,
                  const text::Tokenizer& tokenizer, int n_workers, MemoryBudget& budget,
                  const PipelineConsumer& consumer) {
    Ring(reader, rules, tokenizer, budget, n_workers).consume(consumer);
}

}  // namespace lm::preprocess
