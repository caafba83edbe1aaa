// SPDX-License-Identifier: Apache-2.0
#include "pipeline.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/start_thread.hpp"

namespace lm::preprocess {
namespace {

// Of chunk text; with the ids, which can take twice as much, this bounds what is in flight. The
// chunk that is due next is read in any case.
constexpr i64 most_bytes_in_flight = i64{128} << 20;

// Slots in a ring: ticket t lives in slot t % n. Whoever is free reads the next chunk, encodes it
// and marks the slot full; the consumer empties slots in the order of tickets.
class Ring {
  public:
    // Where a thread cannot be made the destructor runs, since the other constructor is through.
    Ring(data::ChunkReader& reader, const EncodeRules& rules, const text::Tokenizer& tokenizer,
         int n_workers)
        : Ring(reader, rules, tokenizer, static_cast<size_t>(2 * n_workers + 1)) {
        for (int i = 0; i < n_workers; ++i) threads_.push_back(start_thread([this] { work(); }));
    }

    ~Ring() {
        {
            const std::lock_guard lock(mutex_);
            stop_ = true;
        }
        changed_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    void consume(const std::function<void(const ChunkResult&)>& take) {
        for (i64 ticket = 0;; ++ticket) {
            Slot& slot = slot_of(ticket);
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [&] { return slot.full || (last_ >= 0 && ticket >= last_); });
                if (!slot.full) return;
            }
            if (slot.error) std::rethrow_exception(slot.error);
            take(slot.result);
            const auto size = static_cast<i64>(slot.result.chunk.text().size());
            slot.result.release();
            {
                const std::lock_guard lock(mutex_);
                slot.full = false;
                bytes_in_flight_ -= size;
                emptied_ = ticket + 1;
            }
            changed_.notify_all();
        }
    }

  private:
    struct Slot {
        ChunkResult result;
        std::exception_ptr error;
        bool full = false;
    };

    Ring(data::ChunkReader& reader, const EncodeRules& rules, const text::Tokenizer& tokenizer,
         size_t n_slots)
        : reader_(reader), rules_(rules), tokenizer_(tokenizer), slots_(n_slots) {}

    Slot& slot_of(i64 ticket) { return slots_[static_cast<size_t>(ticket) % slots_.size()]; }

    // The next ticket with its chunk read, or nullptr when there is nothing more to do.
    Slot* take_ticket() {
        const std::lock_guard reading(read_mutex_);
        const i64 ticket = next_;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] {
                return stop_ || last_ >= 0 || ticket == emptied_ ||
                       (bytes_in_flight_ < most_bytes_in_flight &&
                        ticket < emptied_ + static_cast<i64>(slots_.size()));
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
        {
            const std::lock_guard lock(mutex_);
            bytes_in_flight_ += static_cast<i64>(slot.result.chunk.text().size());
        }
        if (!more || slot.error) {
            const std::lock_guard lock(mutex_);
            last_ = more ? ticket + 1 : ticket;
            slot.full = more;
            changed_.notify_all();
            return nullptr;
        }
        return &slot;
    }

    void work() {
        ChunkEncoder encoder(rules_, tokenizer_);
        while (Slot* slot = take_ticket()) {
            try {
                encoder.encode(slot->result);
            } catch (...) {
                slot->error = std::current_exception();
            }
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
    std::vector<Slot> slots_;
    std::mutex read_mutex_;  // guards reader_ and next_
    std::mutex mutex_;       // guards the rest
    std::condition_variable changed_;
    i64 next_ = 0;
    i64 emptied_ = 0;
    i64 bytes_in_flight_ = 0;
    i64 last_ = -1;  // number of tickets, once known
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace

void run_pipeline(data::ChunkReader& reader, const EncodeRules& rules,
                  const text::Tokenizer& tokenizer, int n_workers,
                  const std::function<void(const ChunkResult&)>& take) {
    Ring(reader, rules, tokenizer, n_workers).consume(take);
}

}  // namespace lm::preprocess
