// SPDX-License-Identifier: Apache-2.0
// lm-convert --check: compares the logits of a model in two formats, for the same tokens.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::check {

struct LibraryModel {
    std::string python;   // the interpreter that has the library
    std::string library;  // "transformers" or "megatron-core"
    std::string path;     // the directory that the library loads
};

struct LibraryLogits {
    std::string library;         // with its version: "transformers 4.44.2"
    std::vector<double> logits;  // [T, vocabulary], row-major
};

// Runs share/check/library_logits.py. Returns the logits of `tokens`, which are one sequence of T
// tokens, for the first `vocabulary` ids. The library's messages appear on stderr. Throws
// Error(usage) when the interpreter does not exist, Error(failure) when the script fails or returns
// another number of logits.
LibraryLogits library_logits(const LibraryModel& model, std::span<const i32> tokens,
                             i64 vocabulary);

struct Comparison {
    double largest = 0;  // largest absolute difference of a logit
    double rms = 0;      // root mean square of the logits
    double our_perplexity = 0;
    double their_perplexity = 0;
    std::string tokens;  // "310 tokens of English text"
    std::string theirs;  // "transformers 4.44.2"; empty: hf_reference_logits()
};

// Computes the logits of the checkpoint `native` with the code of lm-train, and the logits of the
// Hugging Face model `hf` with hf_reference_logits() in fp64. Both sides use weights of the type of
// `hf`, so that rounding of the weights does not hide a difference. check_tokens() chooses the
// tokens, with a tokenizer of the directories `tokenizers`. Throws Error(answer_is_no) when
// config.json describes another model, or when the logits differ by more than rounding explains.
Comparison compare_with_hf(const std::string& native, const std::string& hf,
                           const std::vector<std::string>& tokenizers);

// Compares the logits of `native` in the same way with the logits that a published library
// computes.
Comparison compare_with_library(const std::string& native, const LibraryModel& model,
                                const std::vector<std::string>& tokenizers);

struct ImportCheck {
    double perplexity = 0;
    std::string tokens;
};

// Computes the logits of an imported checkpoint with the code of lm-train. Throws
// Error(answer_is_no) when a logit is not finite.
ImportCheck check_import(const std::string& native, const std::vector<std::string>& tokenizers);

}  // namespace lm::check
