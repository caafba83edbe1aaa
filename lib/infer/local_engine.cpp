// SPDX-License-Identifier: Apache-2.0
#include "infer/local_engine.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "cluster/limits.hpp"
#include "cpu/cpu_device.hpp"
#include "infer/token_decoder.hpp"

namespace lm::infer {
namespace {

class LocalEngine final : public eval::Engine {
  public:
    static std::unique_ptr<LocalEngine> load(const ckpt::TensorSource& source,
                                             const eval::EngineOptions& options) {
        auto device = cpu::make_device(options.n_threads);
        auto weights = std::make_unique<WeightMemory>(
            WeightMemory::load(source, options, static_cast<cpu::CpuDevice&>(*device).pool()));
        const i64 context = options.context > 0 ? options.context : weights->config().max_positions;
        const i64 bytes = KvCache::bytes_of(weights->config(), context);
        const i64 sequences = sequences_of(bytes, options.sequences);
        TokenDecoder decoder = TokenDecoder::allocate(*weights, sequences, context, *device);
        return std::unique_ptr<LocalEngine>(
            new LocalEngine(std::move(device), std::move(weights), std::move(decoder),
                            {.context = context,
                             .sequence_bytes = bytes,
                             .lengths = std::vector<i64>(static_cast<size_t>(sequences))}));
    }

    const eval::Residency& residency() const override { return weights_->residency(); }
    i64 vocab_size() const override { return weights_->config().vocab_size; }
    i64 context() const override { return cache_.context; }
    i64 sequences() const override { return std::ssize(cache_.lengths); }
    i64 sequence_bytes() const override { return cache_.sequence_bytes; }

    std::span<const float> append_each(std::span<const eval::NextToken> next) override {
        tokens_.clear();
        segments_.clear();
        for (const auto& [sequence, id] : next) prepare(sequence, std::span(&id, 1));
        for (const auto& [sequence, id] : next) {
            i64& length = cache_.lengths.at(static_cast<size_t>(sequence));
            LM_CHECK(length < context(), "expected less than {} tokens, got {}", context(), length);
            tokens_.push_back(id);
            segments_.push_back({sequence, length++, 1, is_longer(sequence)});
            note_length(sequence);
        }
        return decoder_.logits(decoder_.forward(tokens_, segments_), true).span<const float>();
    }

    void run(i64 n_tasks, TaskRef task) override {
        static_cast<cpu::CpuDevice&>(*device_).pool().run(n_tasks, task);
    }

    void select(i64 sequence) override {
        LM_CHECK(sequence < sequences(), "expected a sequence below {}, got {}", sequences(),
                 sequence);
        selected_ = sequence;
    }
    i64 length() const override { return cache_.lengths[static_cast<size_t>(selected_)]; }
    void truncate(i64 to) override {
        LM_CHECK(to <= length(), "expected at most {} tokens, got {}", length(), to);
        cache_.lengths[static_cast<size_t>(selected_)] = to;
        if (histories_.empty()) return;
        History& before = history(selected_);
        before.tokens.resize(static_cast<size_t>(to));
        if (to == 0) before.longest = 0;
        if (to > 0 && to < decoder_.shortest(before.longest)) compute_again(selected_);
    }

    std::span<const float> append(std::span<const i32> tokens) override {
        View last;  // [n, C] fp32
        for_chunks(tokens, [&](i64, const View& rows) { last = rows; });
        return decoder_.logits(last.rows(last[0] - 1, last[0]), true).span<const float>();
    }

    void score(std::span<const i32> tokens, std::span<const i32> targets,
               std::span<eval::TokenScore> scores) override {
        const i64 before = std::ssize(tokens) - std::ssize(targets);  // rows without a target
        for_chunks(tokens, [&](i64 at, const View& rows) {
            for (i64 row = std::max<i64>(0, before - at); row < rows[0];) {
                const i64 n = std::min(decoder_.logit_rows(), rows[0] - row);
                const auto from = static_cast<size_t>(at + row - before);
                score_rows(rows.rows(row, row + n), targets.subspan(from, static_cast<size_t>(n)),
                           scores.subspan(from, static_cast<size_t>(n)));
                row += n;
            }
        });
    }

  private:
    struct Cache {
        i64 context;
        i64 sequence_bytes;
        std::vector<i64> lengths;  // tokens in each sequence
    };

    LocalEngine(std::unique_ptr<device::Device> device, std::unique_ptr<WeightMemory> weights,
                TokenDecoder decoder, Cache cache)
        : device_(std::move(device)),
          weights_(std::move(weights)),
          decoder_(std::move(decoder)),
          cache_(std::move(cache)) {
        if (decoder_.original_context() > 0 || decoder_.shortest(cache_.context) > 0)
            histories_.resize(cache_.lengths.size());
    }

    // Returns how many of `wanted` sequences may be kept: as many as fit into half of the memory
    // that the weights have left free. Activations and the page cache use the rest.
    static i64 sequences_of(i64 bytes, i64 wanted) {
        const auto memory = cluster::memory_room();
        const i64 room = std::min(memory ? memory->bytes : INT64_MAX,
                                  cluster::address_room().value_or(INT64_MAX));
        return std::clamp<i64>(room / 2 / bytes, 1, wanted);
    }

    // A sequence whose keys may be needed again: its rotary frequencies depend on its length, or
    // layers with a window have overwritten keys.
    struct History {
        std::vector<i32> tokens;
        bool longer = false;  // its keys are those of a sequence beyond the original context
        i64 longest = 0;      // length whose keys were computed, before tokens were removed
    };
    History& history(i64 sequence) { return histories_[static_cast<size_t>(sequence)]; }
    bool is_longer(i64 sequence) { return !histories_.empty() && history(sequence).longer; }

    // Prepares a sequence for these tokens: computes its keys again if it gets other rotary
    // frequencies by them, as transformers does.
    void prepare(i64 sequence, std::span<const i32> tokens) {
        if (histories_.empty()) return;
        History& before = history(sequence);
        i64& length = cache_.lengths[static_cast<size_t>(sequence)];
        const i64 original = decoder_.original_context();
        const bool longer = original > 0 && length + std::ssize(tokens) > original;
        if (longer != before.longer) {
            before.longer = longer;
            compute_again(sequence);
        }
        before.tokens.insert(before.tokens.end(), tokens.begin(), tokens.end());
    }

    // Computes the keys of all tokens of the sequence again.
    void compute_again(i64 sequence) {
        History& before = history(sequence);
        before.longest = 0;
        cache_.lengths[static_cast<size_t>(sequence)] = 0;
        forward_chunks(sequence, before.tokens, [](i64, const View&) {});
    }
    void note_length(i64 sequence) {
        if (histories_.empty()) return;
        i64& longest = history(sequence).longest;
        longest = std::max(longest, cache_.lengths[static_cast<size_t>(sequence)]);
    }

    // Appends tokens in chunks to the selected sequence. Calls body(index of the chunk's first
    // token, rows of the chunk [n, C]) for each chunk.
    template <typename Body>
    void for_chunks(std::span<const i32> tokens, const Body& body) {
        LM_CHECK(!tokens.empty() && length() + std::ssize(tokens) <= context(),
                 "expected 1 to {} tokens, got {}", context() - length(), tokens.size());
        prepare(selected_, tokens);
        forward_chunks(selected_, tokens, body);
    }

    template <typename Body>
    void forward_chunks(i64 sequence, std::span<const i32> tokens, const Body& body) {
        i64& length = cache_.lengths[static_cast<size_t>(sequence)];
        for (i64 at = 0; at < std::ssize(tokens);) {
            const i64 n = std::min(TokenDecoder::most_rows, std::ssize(tokens) - at);
            const std::array segment{Segment{sequence, length, n, is_longer(sequence)}};
            const View rows = decoder_.forward(
                tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(n)), segment);
            length += n;
            note_length(sequence);
            body(at, rows);
            at += n;
        }
    }

    // x: [n, C] fp32
    void score_rows(const View& x, std::span<const i32> targets,
                    std::span<eval::TokenScore> scores) {
        const i64 n = x[0];
        device::Context call = decoder_.context();
        const View stats = decoder_.row_stats();
        const auto stat = [&](i64 row) { return stats.rows(row, row + 1).flat().rows(0, n); };
        device::cross_entropy_stats(
            call, {.logits = decoder_.logits(x, false),
                   .targets = {const_cast<i32*>(targets.data()), DType::int32, {n}},
                   .n_valid = vocab_size(),
                   .row_max = stat(0),
                   .row_sum = stat(1),
                   .target_logit = stat(2)});
        for (i64 i = 0; i < n; ++i) {
            const float max = stat(0).as<float>()[i];
            const float target = stat(2).as<float>()[i];
            const double sum = std::log(double{stat(1).as<float>()[i]});
            scores[static_cast<size_t>(i)] = {double{target} - max - sum, target >= max};
        }
    }

    std::unique_ptr<device::Device> device_;
    std::unique_ptr<WeightMemory> weights_;
    TokenDecoder decoder_;
    Cache cache_;
    std::vector<History> histories_;  // of the sequences; empty: no key is needed again
    i64 selected_ = 0;
    std::vector<i32> tokens_;        // of append_each()
    std::vector<Segment> segments_;  // of append_each()
};

}  // namespace

std::unique_ptr<eval::Engine> make_engine(const ckpt::TensorSource& source,
                                          const eval::EngineOptions& options) {
    return LocalEngine::load(source, options);
}

}  // namespace lm::infer

const lm::eval::EnginePlugin* lm_engine_plugin() {
    static const lm::eval::EnginePlugin plugin{.open = lm::infer::make_engine};
    return &plugin;
}
