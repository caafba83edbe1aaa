// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "ckpt/index.hpp"
#include "ckpt/steps.hpp"
#include "convert/gpt2_reference.hpp"
#include "cpu/cpu_device.hpp"
#include "train/trainer.hpp"

namespace lm::convert_tool {
namespace {

// Enough tokens to involve every head and matrix. Later positions involve only other rows of the
// position table, which require_finite() checks with all other weights.
constexpr i64 max_tokens = 64;

std::vector<i32> some_tokens(const spec::ModelConfig& model) {
    std::vector<i32> tokens(static_cast<size_t>(std::min(max_tokens, model.max_positions)));
    const u64 key = stream_key(1, "lm-convert --check");
    for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<i32>(uniform(key, i) * static_cast<double>(model.vocab_size));
    }
    return tokens;
}

void require_finite(const ckpt::Checkpoint& checkpoint) {
    for (const ckpt::TensorInfo& tensor : checkpoint.manifest().tensors) {
        const std::vector<float> values =
            checkpoint.load_fp32(tensor.name, ckpt::SliceKind::weight);
        if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
        run_error("--check", "tensor {} has values that are not finite", tensor.name);
    }
}

std::vector<float> our_logits(const ckpt::Checkpoint& checkpoint, spec::ModelConfig model,
                              const std::vector<i32>& tokens) {
    model.seq_length = static_cast<i64>(tokens.size());
    const int n_threads = available_cores();
    const auto device = cpu::make_device(n_threads);
    train::Trainer trainer({.model = model, .n_threads = n_threads}, *device);
    trainer.load(checkpoint, false);
    data::Batch batch(model.seq_length, {});
    std::ranges::copy(tokens, batch.tokens.begin());
    std::vector<float> logits;
    trainer.logits(batch, [&](i64, std::span<const float> row) {
        logits.insert(logits.end(), row.begin(), row.end());
    });
    return logits;
}

// Returns the allowed difference relative to the root mean square of the logits. An error such as a
// matrix that is not transposed, or heads in another order, gives differences of about 1.
double tolerance(DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return 0.1;
        case DType::fp16:
            return 0.01;
        default:
            return 1e-3;
    }
}

}  // namespace

Comparison compare_logits(const std::string& native, const std::string& hf, DType dtype) {
    const ckpt::Checkpoint checkpoint = ckpt::open(native);
    require_finite(checkpoint);
    const std::vector<i32> tokens = some_tokens(checkpoint.manifest().model);
    const std::vector<float> ours = our_logits(checkpoint, checkpoint.manifest().model, tokens);
    const std::vector<double> theirs = convert::gpt2_reference_logits(hf, tokens);
    if (ours.size() != theirs.size()) {
        run_error("--check", "expected {} logits, got {} from {}: nothing was written", ours.size(),
                  theirs.size(), hf);
    }
    Comparison result;
    double squares = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
        const double difference = std::abs(double{ours[i]} - theirs[i]);
        if (!std::isfinite(difference)) run_error("--check", "a logit is not finite");
        result.largest = std::max(result.largest, difference);
        squares += theirs[i] * theirs[i];
    }
    result.rms = std::sqrt(squares / static_cast<double>(theirs.size()));
    if (!(result.largest <= tolerance(dtype) * result.rms)) {
        run_error("--check", "the logits differ by {:.3e}, their root mean square is {:.3e}",
                  result.largest, result.rms);
    }
    return result;
}

}  // namespace lm::convert_tool
