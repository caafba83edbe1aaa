// SPDX-License-Identifier: Apache-2.0
// With --reset-position-ids, --reset-attention-mask and --eod-mask-loss, loss and gradients of a
// sample with two documents equal those of two samples with one document each.
#include <algorithm>
#include <cmath>

#include "cpu/cpu_device.hpp"
#include "golden.hpp"
#include "support/catch.hpp"
#include "support/training_step.hpp"

using namespace lm;
using namespace lm::test;

namespace {

constexpr i32 eod = 0;
const data::BatchOptions one_row{.micro_batch = 1,
                                 .eod_id = eod,
                                 .reset_position_ids = true,
                                 .reset_attention_mask = true,
                                 .eod_mask_loss = true};

void mark(data::Batch& batch, i64 row) {
    const auto at = static_cast<size_t>(row * batch.seq_length);
    const auto n = static_cast<size_t>(batch.seq_length);
    data::mark_documents(
        std::span(batch.tokens).subspan(at, n), eod, std::span(batch.positions).subspan(at, n),
        std::span(batch.document_starts).subspan(at, n), std::span(batch.loss_mask).subspan(at, n));
}

// One sample of two documents, each of half its length and ending with eod.
data::Batch both(i64 t, const std::vector<i32>& first, const std::vector<i32>& second) {
    data::Batch batch(t, one_row);
    std::ranges::copy(first, batch.tokens.begin());
    std::ranges::copy(second, batch.tokens.begin() + t / 2);
    std::ranges::copy(std::span(batch.tokens).subspan(1), batch.targets.begin());
    batch.targets.back() = 5;
    mark(batch, 0);
    return batch;
}

// Two samples, each with one document at its beginning; the tokens after it are masked in the loss.
data::Batch apart(i64 t, const std::vector<i32>& first, const std::vector<i32>& second) {
    data::BatchOptions options = one_row;
    options.micro_batch = 2;
    data::Batch batch(t, options);
    for (const i64 row : {0, 1}) {
        const std::vector<i32>& document = row == 0 ? first : second;
        const auto at = static_cast<size_t>(row * t);
        std::fill_n(batch.tokens.begin() + row * t, t, 7);
        std::ranges::copy(document, batch.tokens.begin() + row * t);
        std::fill_n(batch.targets.begin() + row * t, t, 3);
        std::copy_n(batch.tokens.begin() + row * t + 1, t - 1, batch.targets.begin() + row * t);
        mark(batch, row);
        std::fill(batch.loss_mask.begin() + row * t + t / 2,
                  batch.loss_mask.begin() + (row + 1) * t, 0.0F);
        batch.sample_ids[static_cast<size_t>(row)] = row;
        CHECK(batch.loss_mask[at + static_cast<size_t>(t) / 2 - 1] == 0.0F);  // at the eod
    }
    return batch;
}

struct Result {
    double loss;
    std::vector<float> gradients;
};

Result run(const spec::ModelConfig& model, const data::Batch& batch) {
    const auto device = cpu::make_device(2);
    const auto trainer = train::Trainer::allocate({.model = model,
                                                   .micro_batch = batch.n_rows,
                                                   .documents = {.reset_attention_mask = true},
                                                   .n_threads = 2},
                                                  *device);
    trainer->initialize();
    train::RepeatedBatch batches(batch);
    const double loss = make_step(*trainer, batches, 1, 1e-3).loss;
    const auto gradients = trainer->gradients().span<const float>();
    return {loss, {gradients.begin(), gradients.end()}};
}

}  // namespace

TEST_CASE("documents of a sample are independent, in every architecture") {
    const auto name = GENERATE(as<std::string>{}, "gpt2_tiny", "bloom_tiny", "llama_tiny",
                               "llama_gqa", "neox_odd", "neox_parallel");
    spec::ModelConfig model = Golden(name).config();
    model.seq_length = model.max_positions = 16;
    model.init_std = 0.3;
    const std::vector<i32> first{3, 14, 15, 9, 26, 5, 35, eod};
    const std::vector<i32> second{27, 18, 28, 18, 28, 45, 9, eod};
    const Result one = run(model, both(16, first, second));
    const Result two = run(model, apart(16, first, second));
    CHECK(one.loss == Approx(two.loss).epsilon(1e-6));
    double difference = 0;
    double whole = 0;
    for (size_t i = 0; i < one.gradients.size(); ++i) {
        difference += std::pow(static_cast<double>(one.gradients[i]) - two.gradients[i], 2);
        whole += std::pow(static_cast<double>(two.gradients[i]), 2);
    }
    INFO(name);
    CHECK(whole > 1e-4);
    CHECK(std::sqrt(difference) < 1e-6 * std::sqrt(whole));
    // Without the flags the values differ.
    data::Batch mixed = both(16, first, second);
    std::ranges::fill(mixed.document_starts, 0);
    CHECK(std::abs(run(model, mixed).loss - one.loss) > 1e-4);
}

namespace {

// Returns the batches in turn.
class InTurn final : public train::BatchSource {
  public:
    explicit InTurn(std::vector<data::Batch> batches) : batches_(std::move(batches)) {}
    const data::Batch& next() override { return batches_[at_++ % batches_.size()]; }

  private:
    std::vector<data::Batch> batches_;
    size_t at_ = 0;
};

Result run_step(const spec::ModelConfig& model, std::vector<data::Batch> batches, bool per_token,
                spec::Precision precision = {}) {
    const auto device = cpu::make_device(2);
    const i64 micro_batch = batches.front().n_rows;
    const auto n = static_cast<i64>(batches.size());
    const auto trainer = train::Trainer::allocate(
        {.model = model,
         .micro_batch = micro_batch,
         .n_micro_batches = n,
         .precision = precision,
         .loss_scale = {.fixed = 1024},
         .documents = {.reset_attention_mask = true, .per_token_loss = per_token},
         .n_threads = 2},
        *device);
    trainer->initialize();
    InTurn source(std::move(batches));
    const train::StepResult step = trainer->compute_gradients(source, n);
    const auto gradients = trainer->gradients().span<const float>();
    std::vector<float> unscaled(gradients.begin(), gradients.end());
    for (float& g : unscaled) g /= static_cast<float>(step.gradient_scale);
    const double evaluated = trainer->evaluate(source, n).mean();
    CHECK(evaluated == Approx(step.loss).epsilon(1e-9));
    return {step.loss, unscaled};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double squares = 0;
    double whole = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        squares += std::pow(double{a[i]} - b[i], 2);
        whole += std::pow(double{b[i]}, 2);
    }
    return std::sqrt(squares / whole);
}

}  // namespace

TEST_CASE("the loss is the mean over the unmasked tokens of the batch, however it is divided") {
    spec::ModelConfig model = Golden("gpt2_tiny").config();
    model.seq_length = model.max_positions = 16;
    model.init_std = 0.3;
    const std::vector<i32> first{3, 14, 15, 9, 26, 5, 35, eod};
    const std::vector<i32> second{27, 18, 28, 18, 28, 45, 9, eod};
    data::Batch whole = apart(16, first, second);  // 7 unmasked tokens in each row
    // Of the second row, only two tokens count.
    std::fill(whole.loss_mask.begin() + 16 + 2, whole.loss_mask.end(), 0.0F);
    std::vector<data::Batch> rows;
    for (const i64 row : {0, 1}) {
        data::Batch one(16, one_row);
        const auto part = [row](const auto& from, auto& to) {
            std::copy_n(from.begin() + row * 16, 16, to.begin());
        };
        part(whole.tokens, one.tokens);
        part(whole.targets, one.targets);
        part(whole.positions, one.positions);
        part(whole.document_starts, one.document_starts);
        part(whole.loss_mask, one.loss_mask);
        one.sample_ids = {row};
        rows.push_back(one);
    }
    const Result together = run_step(model, {whole}, false);
    const Result divided = run_step(model, rows, false);
    const Result per_token = run_step(model, rows, true);
    CHECK(divided.loss == Approx(together.loss).epsilon(1e-7));
    CHECK(per_token.loss == divided.loss);
    // The mean of the means over 7 and 2 tokens is another gradient than the mean over 9.
    CHECK(distance(divided.gradients, together.gradients) > 0.05);
    CHECK(distance(per_token.gradients, together.gradients) < 1e-6);
    const Result fp16 = run_step(model, rows, true, {.weights = DType::fp16});
    CHECK(distance(fp16.gradients, together.gradients) < 0.02);
}
