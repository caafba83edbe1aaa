// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "ckpt/index.hpp"
#include "ckpt/steps.hpp"
#include "convert/hf_reference.hpp"
#include "cpu/cpu_device.hpp"
#include "train/trainer.hpp"

namespace lm::convert_tool {
namespace {

// The number of tokens is enough to involve every head and matrix. Later positions involve only
// other rows of the position embedding matrix, which require_finite() checks with all other
// weights.
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
    train::Trainer trainer =
        train::Trainer::allocate({.model = model, .n_threads = n_threads}, *device);
    trainer.load(checkpoint, false);
    trainer.gather_loaded();
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
            return 2e-4;
    }
}

// Returns the perplexity of tokens 1, 2, ... under the logits [T, vocabulary].
template <typename T>
double perplexity(std::span<const T> logits, const std::vector<i32>& tokens) {
    const size_t vocabulary = logits.size() / tokens.size();
    double loss = 0;
    for (size_t t = 0; t + 1 < tokens.size(); ++t) {
        const auto row = logits.subspan(t * vocabulary, vocabulary);
        const double largest = *std::ranges::max_element(row);
        double sum = 0;
        for (const T logit : row) sum += std::exp(double{logit} - largest);
        loss += std::log(sum) + largest - double{row[static_cast<size_t>(tokens[t + 1])]};
    }
    return std::exp(loss / static_cast<double>(std::max<size_t>(1, tokens.size() - 1)));
}

Comparison difference(const std::vector<float>& ours, const std::vector<double>& theirs) {
    Comparison result;
    double squares = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
        const double difference = std::abs(double{ours[i]} - theirs[i]);
        if (!std::isfinite(difference)) run_error("--check", "a logit is not finite");
        result.largest = std::max(result.largest, difference);
        squares += theirs[i] * theirs[i];
    }
    result.rms = std::sqrt(squares / static_cast<double>(theirs.size()));
    return result;
}

// Returns the remedy for logits that differ: the activation function that explains them, if any.
std::string explanation(const std::string& hf, const std::vector<i32>& tokens,
                        const std::vector<float>& ours, DType dtype) {
    for (const char* activation : {"gelu_new", "gelu", "silu"}) {
        const Comparison other =
            difference(ours, convert::hf_reference_logits(hf, tokens, activation));
        if (other.largest <= tolerance(dtype) * other.rms) {
            return fmt::format(
                "the model was trained with {}: correct the activation function in config.json",
                activation);
        }
    }
    return "the model is another one, or was converted wrongly";
}

}  // namespace

double check_import(const std::string& native) {
    const ckpt::Checkpoint checkpoint = ckpt::open(native);
    require_finite(checkpoint);
    const std::vector<i32> tokens = some_tokens(checkpoint.manifest().model);
    const std::vector<float> logits = our_logits(checkpoint, checkpoint.manifest().model, tokens);
    if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
        fail(Exit::answer_is_no, "--check", "a logit of the imported model is not finite");
    }
    return perplexity(std::span(logits), tokens);
}

Comparison compare_logits(const std::string& native, const std::string& hf, DType dtype) {
    const ckpt::Checkpoint checkpoint = ckpt::open(native);
    require_finite(checkpoint);
    const std::vector<i32> tokens = some_tokens(checkpoint.manifest().model);
    const std::vector<float> ours = our_logits(checkpoint, checkpoint.manifest().model, tokens);
    const std::vector<double> theirs = convert::hf_reference_logits(hf, tokens);
    if (ours.size() != theirs.size()) {
        fail(Exit::answer_is_no, "--check", "expected {} logits, got {} from {}", ours.size(),
             theirs.size(), hf);
    }
    Comparison result = difference(ours, theirs);
    if (!(result.largest <= tolerance(dtype) * result.rms)) {
        fail(Exit::answer_is_no, "--check",
             "the logits differ by {:.3e}, their root mean square is {:.3e}: {}", result.largest,
             result.rms, explanation(hf, tokens, ours, dtype));
    }
    result.our_perplexity = perplexity(std::span(ours), tokens);
    result.their_perplexity = perplexity(std::span(theirs), tokens);
    return result;
}

}  // namespace lm::convert_tool
