// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "base/threads.hpp"

namespace lm::data {
namespace {

// Returns how many batches a loader fills in advance: `wanted`, or fewer if they exceed 16 MiB.
i64 limit_ahead(const Batch& batch, i64 wanted) {
    constexpr i64 limit_bytes = 16 << 20;
    return std::min(wanted, std::max<i64>(limit_bytes / std::max<i64>(batch.n_bytes(), 1), 2));
}

}  // namespace

struct Loader::State {
    struct Slot {
        Batch batch;
        std::exception_ptr error;
    };

    const SampleSource& source;
    BatchOptions options;
    i64 dp_size, dp_rank;
    bool threaded;
    std::vector<Slot> slots;  // a ring: the caller uses one slot, the thread fills the others ahead

    std::mutex mutex;
    std::condition_variable changed;
    // Micro-batches are numbered from 0 since the last seek.
    i64 base = 0;      // first sample of micro-batch 0
    i64 n_taken = 0;   // micro-batches that next() has returned
    i64 n_filled = 0;  // micro-batches that are filled
    i64 n_seeks = 0;   // number of seeks; work() drops a micro-batch that it filled during a seek
    bool stop = false;
    std::thread thread;

    i64 first_sample(i64 from, i64 micro_batch) const {
        return from + (micro_batch * dp_size + dp_rank) * options.micro_batch;
    }
    Slot& slot(i64 micro_batch) { return slots[static_cast<size_t>(micro_batch) % slots.size()]; }

    void fill(Slot& into, i64 sample) const {
        into.error = nullptr;
        try {
            fill_batch(source, options, sample, into.batch);
        } catch (...) {
            into.error = std::current_exception();
        }
    }

    // The caller uses the slot of micro-batch n_taken - 1; the thread may fill all others.
    i64 n_ahead() const { return static_cast<i64>(slots.size()) - 1; }
    i64 room() const { return n_ahead() - (n_filled - n_taken); }
    // The thread sleeps until few slots are filled, because waking the thread takes the caller
    // about 10 us, and the rest of next() less than 1 us.
    bool worth_waking() const { return n_filled - n_taken <= std::min<i64>(n_ahead() / 2, 8); }

    void work() {
        std::unique_lock lock(mutex);
        while (true) {
            if (room() == 0) changed.wait(lock, [&] { return stop || worth_waking(); });
            if (stop) return;
            const i64 mine = n_seeks;
            Slot& into = slot(n_filled);
            const i64 sample = first_sample(base, n_filled);
            // Fills the slot without the lock. If seek() resets the counters meanwhile, n_seeks
            // changes, and the micro-batch is dropped.
            lock.unlock();
            fill(into, sample);
            lock.lock();
            if (mine == n_seeks) ++n_filled;
            changed.notify_all();
        }
    }
};

Loader::Loader(const SampleSource& source, const BatchOptions& options, i64 first_sample,
               i64 dp_size, i64 dp_rank, int n_ahead)
    : state_(new State{.source = source,
                       .options = options,
                       .dp_size = dp_size,
                       .dp_rank = dp_rank,
                       .threaded = n_ahead > 0,
                       .slots = {},
                       .mutex = {},
                       .changed = {},
                       .base = first_sample,
                       .thread = {}}) {
    options.check();
    LM_CHECK(dp_rank >= 0 && dp_rank < dp_size && first_sample >= 0,
             "expected a rank below {} and a sample of at least 0, got rank {} and sample {}",
             dp_size, dp_rank, first_sample);
    const Batch batch(source.seq_length(), options);
    state_->slots.resize(static_cast<size_t>(limit_ahead(batch, std::max(n_ahead, 0))) + 1);
    for (auto& slot : state_->slots) slot.batch = batch;
    if (state_->threaded) state_->thread = start_thread([s = state_.get()] { s->work(); });
}

Loader::~Loader() {
    if (!state_->threaded) return;
    {
        const std::lock_guard lock(state_->mutex);
        state_->stop = true;
    }
    state_->changed.notify_all();
    state_->thread.join();
}

const Batch& Loader::next() {
    State& s = *state_;
    std::unique_lock lock(s.mutex);
    if (s.threaded) {
        s.changed.wait(lock, [&] { return s.n_filled > s.n_taken; });
    } else {
        s.fill(s.slot(s.n_taken), s.first_sample(s.base, s.n_taken));
        s.n_filled = s.n_taken + 1;
    }
    State::Slot& slot = s.slot(s.n_taken);
    // n_taken does not change, so every further call throws the error again, until seek().
    if (slot.error) std::rethrow_exception(slot.error);
    ++s.n_taken;
    const bool wakes = s.worth_waking();
    lock.unlock();  // the thread would wake only to wait for the lock
    if (wakes) s.changed.notify_all();
    return slot.batch;
}

i64 Loader::position() const {
    const std::lock_guard lock(state_->mutex);
    return state_->base + state_->n_taken * state_->dp_size * state_->options.micro_batch;
}

void Loader::seek(i64 sample) {
    const std::lock_guard lock(state_->mutex);
    state_->base = sample;
    state_->n_taken = 0;
    state_->n_filled = 0;
    ++state_->n_seeks;
    state_->changed.notify_all();
}

}  // namespace lm::data
