// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "base/threads.hpp"

namespace lm::data {

void BatchOptions::check() const {
    if (micro_batch < 1) usage_error("--micro-batch-size", "must be at least 1");
    if (eod_id) return;
    const char* flag = reset_position_ids     ? "--reset-position-ids"
                       : reset_attention_mask ? "--reset-attention-mask"
                       : eod_mask_loss        ? "--eod-mask-loss"
                                              : nullptr;
    if (flag != nullptr) {
        usage_error(flag,
                    "the id of the end-of-document token is unknown: name the tokenizer, or make "
                    "the data with lm-preprocess, which writes the id to the metadata file");
    }
}

Batch::Batch(i64 length, const BatchOptions& options)
    : n_rows(options.micro_batch), seq_length(length) {
    const size_t n = static_cast<size_t>(checked_mul(n_rows, seq_length));
    tokens.resize(n);
    targets.resize(n);
    sample_ids.resize(static_cast<size_t>(n_rows));
    if (options.reset_position_ids) positions.resize(n);
    if (options.reset_attention_mask) document_starts.resize(n);
    if (options.eod_mask_loss) loss_mask.resize(n);
}

void mark_documents(std::span<const i32> tokens, i64 eod_id, std::span<i32> positions,
                    std::span<i32> document_starts, std::span<float> loss_mask) {
    i32 start = 0;
    for (size_t t = 0; t < tokens.size(); ++t) {
        const i32 here = static_cast<i32>(t);
        const bool eod = tokens[t] == eod_id;
        if (!positions.empty()) positions[t] = here - start;
        if (!document_starts.empty()) document_starts[t] = start;
        if (!loss_mask.empty()) loss_mask[t] = eod ? 0.0F : 1.0F;
        if (eod) start = here + 1;
    }
}

void fill_batch(const SampleSource& source, const BatchOptions& options, i64 first_sample,
                Batch& batch) {
    thread_local std::vector<i32> row;
    const size_t length = static_cast<size_t>(batch.seq_length);
    LM_CHECK(source.seq_length() == batch.seq_length, "expected seq_length={}, got {}",
             source.seq_length(), batch.seq_length);
    row.resize(length + 1);
    const auto part = [&](auto& all, i64 r) {
        using Span = std::span<std::remove_reference_t<decltype(all[0])>>;
        return all.empty() ? Span() : Span(all).subspan(static_cast<size_t>(r) * length, length);
    };
    for (i64 r = 0; r < batch.n_rows; ++r) {
        const i64 sample = first_sample + r;
        if (sample >= source.size()) {
            usage_error("--data-path", "sample {} is beyond the {} samples that were planned",
                        sample, source.size());
        }
        source.fill(sample, row);
        const auto tokens = part(batch.tokens, r);
        std::copy_n(row.begin(), length, tokens.begin());
        std::copy_n(row.begin() + 1, length, part(batch.targets, r).begin());
        batch.sample_ids[static_cast<size_t>(r)] = sample;
        if (options.eod_id) {
            mark_documents(tokens, *options.eod_id, part(batch.positions, r),
                           part(batch.document_starts, r), part(batch.loss_mask, r));
        }
    }
}

void truncate(const Batch& full, i64 seq_length, Batch& batch) {
    LM_CHECK(seq_length > 0 && seq_length <= full.seq_length,
             "expected seq_length of at most {}, got {}", full.seq_length, seq_length);
    batch.n_rows = full.n_rows;
    batch.seq_length = seq_length;
    batch.sample_ids = full.sample_ids;
    const auto cut = [&](const auto& from, auto& to) {
        to.clear();
        to.reserve(from.size());
        for (i64 r = 0; r < full.n_rows && !from.empty(); ++r) {
            const auto begin = from.begin() + r * full.seq_length;
            to.insert(to.end(), begin, begin + seq_length);
        }
    };
    cut(full.tokens, batch.tokens);
    cut(full.targets, batch.targets);
    cut(full.positions, batch.positions);
    cut(full.document_starts, batch.document_starts);
    cut(full.loss_mask, batch.loss_mask);
}

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
    bool has_room() const { return n_filled - n_taken < static_cast<i64>(slots.size()) - 1; }

    void work() {
        std::unique_lock lock(mutex);
        while (true) {
            changed.wait(lock, [&] { return stop || has_room(); });
            if (stop) return;
            const i64 mine = n_seeks;
            Slot& into = slot(n_filled);
            const i64 sample = first_sample(base, n_filled);
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
    state_->slots.resize(static_cast<size_t>(std::max(n_ahead, 0)) + 1);
    for (auto& slot : state_->slots) slot.batch = Batch(source.seq_length(), options);
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
    if (slot.error) std::rethrow_exception(slot.error);
    ++s.n_taken;
    s.changed.notify_all();
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
