// SPDX-License-Identifier: Apache-2.0
// Computes the logits of a model with a published library: transformers or megatron-core, in
// Python.
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

}  // namespace lm::check
