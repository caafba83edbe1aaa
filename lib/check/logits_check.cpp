// SPDX-License-Identifier: Apache-2.0
#include "check/logits_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "base/fd_path.hpp"
#include "base/version.hpp"
#include "check/check_tokens.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/steps.hpp"
#include "convert/hf/config_json.hpp"
#include "convert/hf/files.hpp"
#include "convert/hf/reference.hpp"
#include "cpu/cpu_device.hpp"
#include "io/program.hpp"
#include "train/step/trainer.hpp"

namespace lm::check {

namespace {

constexpr const char* option = "--check-python";

}  // namespace

LibraryLogits library_logits(const LibraryModel& model, std::span<const i32> tokens,
                             i64 vocabulary) {
    const io::ProgramResult result =
        io::run_program({model.python, share_file("check/library_logits.py"), model.library,
                         without_fd_paths(model.path), std::to_string(vocabulary),
                         fmt::format("{}", fmt::join(tokens, ","))});
    if (result.code == 127) {
        usage_error(option, "{} does not exist: give a Python that has {}", model.python,
                    model.library);
    }
    if (result.code != 0) {
        run_error(
            option,
            "{} failed to compute the logits of {} with {}: exit code {}: see the messages above",
            model.python, model.path, model.library, result.code);
    }
    const size_t line = result.output.find('\n');
    const size_t n = tokens.size() * static_cast<size_t>(vocabulary);
    const size_t bytes = line == std::string::npos ? 0 : result.output.size() - line - 1;
    if (bytes != n * sizeof(float)) {
        run_error(option, "{}: expected {} bytes of logits, got {}", model.python,
                  n * sizeof(float), bytes);
    }
    std::vector<float> values(n);
    std::memcpy(values.data(), result.output.data() + line + 1, bytes);
    return {result.output.substr(0, line), {values.begin(), values.end()}};
}

namespace {

void require_finite(const ckpt::Checkpoint& checkpoint) {
    for (const ckpt::TensorInfo& tensor : checkpoint.manifest().tensors) {
        const std::vector<float> values =
            checkpoint.load_fp32(tensor.name, ckpt::SliceKind::weight);
        if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
        run_error("--check", "tensor {} has values that are not finite", tensor.name);
    }
}

// Computes the logits with the weights rounded to the type `weights`.
std::vector<float> our_logits(const ckpt::Checkpoint& checkpoint, DType weights,
                              const std::vector<i32>& tokens) {
    spec::ModelConfig model = checkpoint.manifest().model;
    model.seq_length = static_cast<i64>(tokens.size());
    const int n_threads = available_cores();
    const auto device = cpu::make_device(n_threads);
    const auto trainer =
        train::Trainer::allocate({.model = model, .n_threads = n_threads}, *device);
    trainer->load_rounded(checkpoint, weights);
    trainer->gather_loaded();
    data::Batch batch(model.seq_length, {});
    std::ranges::copy(tokens, batch.tokens.begin());
    std::vector<float> logits;
    trainer->logits(batch, [&](i64, std::span<const float> row) {
        logits.insert(logits.end(), row.begin(), row.end());
    });
    return logits;
}

// Returns the allowed difference relative to the root mean square of the logits. A faulty
// conversion, such as a matrix that is not transposed or heads in another order, gives differences
// of about 1.
double tolerance(DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return 0.1;
        case DType::fp16:
            return 0.01;
        case DType::fp32:
        case DType::fp64:
        case DType::uint8:
        case DType::uint16:
        case DType::int32:
        case DType::int64:
            break;
    }
    return 2e-4;
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
            fail(Exit::answer_is_no, "--check", "a logit of one of the two models is not finite");
        }
        result.largest = std::max(result.largest, difference);
        squares += theirs[i] * theirs[i];
    }
    result.rms = std::sqrt(squares / static_cast<double>(theirs.size()));
    return result;
}

DType stored_type(const ckpt::Checkpoint& checkpoint) {
    return checkpoint.manifest().tensors.at(0).dtype;
}

// The native checkpoint of a comparison, and its logits for the tokens of the check.
struct OurLogits {
    ckpt::Checkpoint checkpoint;
    CheckTokens tokens;
    std::vector<float> logits;
};

// Opens `native` and computes its logits with the weights rounded to the type `weights`.
OurLogits forward(const std::string& native, const std::vector<std::string>& tokenizers,
                  DType weights) {
    const ckpt::Checkpoint checkpoint = ckpt::open(native);
    require_finite(checkpoint);
    OurLogits result{checkpoint, check_tokens(checkpoint.manifest().model, tokenizers), {}};
    result.logits = our_logits(checkpoint, weights, result.tokens.ids);
    return result;
}

// Returns the type whose rounding may explain a difference of the logits. If the checkpoint has a
// 16-bit type other than `theirs` and no master weights, the conversion rounded the weights, and
// the result is the checkpoint's type. Otherwise the result is fp32.
DType coarser_type(const OurLogits& ours, DType theirs) {
    const DType stored = stored_type(ours.checkpoint);
    const bool finer = is_half(stored) && !ours.checkpoint.has(ckpt::SliceKind::master);
    return finer && stored != theirs ? stored : DType::fp32;
}

bool within_rounding(const Comparison& result, DType dtype) {
    return result.largest <= tolerance(dtype) * result.rms;
}

// Compares the logits of both models. `theirs_type` is the type of the other model. Throws
// Error(answer_is_no) when the models have different numbers of logits, or when the logits differ
// by more than rounding explains. The weights of the other model may have been rounded to the
// checkpoint's type and then stored in a finer type. So when the first comparison fails, also
// compares logits that are computed with weights in the checkpoint's type. If those logits agree
// with `theirs`, returns the second comparison and keeps the logits of the rounded weights.
Comparison compare(OurLogits& ours, const std::vector<double>& theirs, const std::string& whose,
                   DType theirs_type) {
    if (ours.logits.size() != theirs.size()) {
        fail(Exit::answer_is_no, "--check", "expected {} logits, got {} from {}",
             ours.logits.size(), theirs.size(), whose);
    }
    const DType dtype = coarser_type(ours, theirs_type);
    Comparison result = difference(ours.logits, theirs);
    const DType stored = stored_type(ours.checkpoint);
    if (!within_rounding(result, dtype) && stored != theirs_type) {
        std::vector<float> rounded = our_logits(ours.checkpoint, stored, ours.tokens.ids);
        if (const Comparison other = difference(rounded, theirs); within_rounding(other, dtype)) {
            result = other;
            ours.logits = std::move(rounded);
        }
    }
    result.tokens = ours.tokens.what;
    result.our_perplexity = perplexity(std::span<const float>(ours.logits), ours.tokens.ids);
    result.their_perplexity = perplexity(std::span(theirs), ours.tokens.ids);
    if (!within_rounding(result, dtype)) {
        fail(Exit::answer_is_no, "--check",
             "the logits differ by up to {:.3e} from the logits of {} (root mean square of the "
             "logits: {:.3e}); perplexity {:.4f} (lm-train) and {:.4f} ({}), measured on {}: "
             "these are different models, or the conversion is wrong",
             result.largest, whose, result.rms, result.our_perplexity, result.their_perplexity,
             whose, result.tokens);
    }
    return result;
}

}  // namespace

ImportCheck check_import(const std::string& native, const std::vector<std::string>& tokenizers) {
    const OurLogits ours = forward(native, tokenizers, DType::fp32);
    if (!std::ranges::all_of(ours.logits, [](float logit) { return std::isfinite(logit); })) {
        fail(Exit::answer_is_no, "--check", "a logit of the imported model is not finite");
    }
    return {perplexity(std::span(ours.logits), ours.tokens.ids), ours.tokens.what};
}

Comparison compare_with_hf(const std::string& native, const std::string& hf,
                           const std::vector<std::string>& tokenizers) {
    const ckpt::Checkpoint checkpoint = ckpt::open(native);
    convert::check_hf_config(hf, checkpoint.manifest().model, checkpoint.manifest().tokenizer);
    const DType theirs_type = convert::hf_weights_type(hf);
    OurLogits ours = forward(native, tokenizers, theirs_type);
    const std::vector<double> theirs = convert::hf_reference_logits(hf, ours.tokens.ids);
    return compare(ours, theirs, hf, theirs_type);
}

Comparison compare_with_library(const std::string& native, const LibraryModel& model,
                                const std::vector<std::string>& tokenizers) {
    // megatron-core loads the weights that the import has copied to `native`, not the master
    // weights.
    const DType theirs_type = model.library == "transformers" ? convert::hf_weights_type(model.path)
                                                              : stored_type(ckpt::open(native));
    OurLogits ours = forward(native, tokenizers, theirs_type);
    const i64 vocabulary = std::ssize(ours.logits) / std::ssize(ours.tokens.ids);
    const LibraryLogits theirs = library_logits(model, ours.tokens.ids, vocabulary);
    Comparison result = compare(ours, theirs.logits, theirs.library, theirs_type);
    result.theirs = theirs.library;
    return result;
}

}  // namespace lm::check
