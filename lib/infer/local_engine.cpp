// SPDX-License-Identifier: Apache-2.0
#include "infer/local_engine.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
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
        const i64 context = weights->config().max_positions;
        TokenDecoder decoder = TokenDecoder::allocate(*weights, context, *device);
        return std::unique_ptr<LocalEngine>(
            new LocalEngine(std::move(device), std::move(weights), std::move(decoder)));
    }

    const eval::Residency& residency() const override { return weights_->residency(); }
    i64 vocab_size() const override { return weights_->config().vocab_size; }
    i64 context() const override { return weights_->config().max_positions; }
    i64 length() const override { return length_; }
    void truncate(i64 length) override {
        LM_CHECK(length <= length_, "expected at most {} tokens, got {}", length_, length);
        length_ = length;
    }

    std::span<const float> append(std::span<const i32> tokens) override {
        View last;  // [n, C] fp32
        for_chunks(tokens, [&](i64, const View& rows) { last = rows; });
        return decoder_.logits(last.rows(last[0] - 1, last[0])).span<const float>();
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
    LocalEngine(std::unique_ptr<device::Device> device, std::unique_ptr<WeightMemory> weights,
                TokenDecoder decoder)
        : device_(std::move(device)), weights_(std::move(weights)), decoder_(std::move(decoder)) {}

    // Appends tokens in chunks. Calls body(index of the chunk's first token, rows of the chunk [n,
    // C]) for each chunk.
    template <typename Body>
    void for_chunks(std::span<const i32> tokens, const Body& body) {
        LM_CHECK(!tokens.empty() && length_ + std::ssize(tokens) <= context(),
                 "expected 1 to {} tokens, got {}", context() - length_, tokens.size());
        for (i64 at = 0; at < std::ssize(tokens);) {
            const i64 n = std::min(TokenDecoder::most_rows, std::ssize(tokens) - at);
            const View rows = decoder_.forward(
                tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(n)), length_);
            length_ += n;
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
            call, {.logits = decoder_.logits(x),
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
    i64 length_ = 0;
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
