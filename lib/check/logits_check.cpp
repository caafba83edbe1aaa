// SPDX-License-Identifier: Apache-2.0
#include "check/logits_check.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.hpp"
#include "check/check_tokens.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/steps.hpp"
#include "convert/hf_reference.hpp"
#include "cpu/cpu_device.hpp"
#include "train/step/trainer.hpp"

namespace lm::check {
namespace {

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
    const auto trainer =
        train::Trainer::allocate({.model = model, .n_threads = n_threads}, *device);
    trainer->load(checkpoint, false);
    trainer->gather_loaded();
    data::Batch batch(model.seq_length, {});
    std::ranges::copy(tokens, batch.tokens.begin());
    std::vector<float> logits;
    trainer->logits(batch, [&](i64, std::span<const float> row) {
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
        if (!std::isfinite(difference)) {
            fail(Exit::answer_is_no, "--check", "a logit is not finite");
        }
        result.largest = std::max(result.largest, difference);
        squares += theirs[i] * theirs[i];
    }
    result.rms = std::sqrt(squares / static_cast<double>(theirs.size()));
    return result;
}

// The logits of the native checkpoint for the tokens of the check.
struct OurLogits {
    CheckTokens tokens;
    std::vector<float> logits;
};

OurLogits forward(const std::string& native, const std::vector<std::string>& tokenizers) {
    const ckpt::Checkpoint checkpoint = ckpt::open(native);
    require_finite(checkpoint);
    const spec::ModelConfig& model = checkpoint.manifest().model;
    OurLogits result{check_tokens(model, tokenizers), {}};
    result.logits = our_logits(checkpoint, model, result.tokens.ids);
    return result;
}

bool within_rounding(const Comparison& result, DType dtype) {
    return result.largest <= tolerance(dtype) * result.rms;
}

// Compares the logits. Throws Error(answer_is_no) when they have another number, or differ by more
// than the rounding to `dtype`; `remedy` returns the end of its message.
template <typename Remedy>
Comparison compare(const OurLogits& ours, const std::vector<double>& theirs,
                   const std::string& whose, DType dtype, Remedy remedy) {
    if (ours.logits.size() != theirs.size()) {
        fail(Exit::answer_is_no, "--check", "expected {} logits, got {} from {}",
             ours.logits.size(), theirs.size(), whose);
    }
    Comparison result = difference(ours.logits, theirs);
    result.tokens = ours.tokens.what;
    result.our_perplexity = perplexity(std::span(ours.logits), ours.tokens.ids);
    result.their_perplexity = perplexity(std::span(theirs), ours.tokens.ids);
    if (!within_rounding(result, dtype)) {
        fail(Exit::answer_is_no, "--check",
             "the logits differ by {:.3e} from those of {}, their root mean square is {:.3e}; "
             "perplexity {:.4f} and {:.4f} of {}: {}",
             result.largest, whose, result.rms, result.our_perplexity, result.their_perplexity,
             result.tokens, remedy());
    }
    return result;
}

constexpr const char* other_model = "these are different models, or the conversion is wrong";

// Returns the remedy for logits that differ: the activation function that explains them, if any.
std::string explanation(const std::string& hf, const std::vector<i32>& tokens,
                        const std::vector<float>& ours, DType dtype) {
    for (const char* activation : {"gelu_new", "gelu", "silu", "relu2"}) {
        const Comparison other =
            difference(ours, convert::hf_reference_logits(hf, tokens, activation));
        if (within_rounding(other, dtype)) {
            return fmt::format(
                "the model was trained with {}: correct the activation function in config.json",
                activation);
        }
    }
    return other_model;
}

}  // namespace

ImportCheck check_import(const std::string& native, const std::vector<std::string>& tokenizers) {
    const OurLogits ours = forward(native, tokenizers);
    if (!std::ranges::all_of(ours.logits, [](float logit) { return std::isfinite(logit); })) {
        fail(Exit::answer_is_no, "--check", "a logit of the imported model is not finite");
    }
    return {perplexity(std::span(ours.logits), ours.tokens.ids), ours.tokens.what};
}

Comparison compare_with_hf(const std::string& native, const std::string& hf, DType dtype,
                           const std::vector<std::string>& tokenizers) {
    const OurLogits ours = forward(native, tokenizers);
    const std::vector<double> theirs = convert::hf_reference_logits(hf, ours.tokens.ids);
    return compare(ours, theirs, hf, dtype,
                   [&] { return explanation(hf, ours.tokens.ids, ours.logits, dtype); });
}

Comparison compare_with_library(const std::string& native, const LibraryModel& model, DType dtype,
                                const std::vector<std::string>& tokenizers) {
    const OurLogits ours = forward(native, tokenizers);
    const i64 vocabulary = std::ssize(ours.logits) / std::ssize(ours.tokens.ids);
    const LibraryLogits theirs = library_logits(model, ours.tokens.ids, vocabulary);
    Comparison result =
        compare(ours, theirs.logits, theirs.library, dtype, [] { return other_model; });
    result.theirs = theirs.library;
    return result;
}

}  // namespace lm::check
