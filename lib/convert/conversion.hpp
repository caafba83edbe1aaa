// SPDX-License-Identifier: Apache-2.0
// A conversion between model formats: what is asked for and reported, the format of a path, and the
// directory that it makes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "io/atomic.hpp"

namespace lm::convert {

enum class Format { native, hf_gpt2 };
std::string_view name_of(Format format);

// What `path` is. Throws Error(usage) when it is neither.
Format detect_format(const std::string& path);

struct ConversionRequest {
    std::string in;
    std::string out;
    std::optional<DType> dtype;  // default: to Hugging Face as it is stored, to native fp32
    i64 max_shard_bytes = 5'000'000'000;
    std::string tokenizer;  // directory; empty: GPT-2's when the vocabulary is GPT-2's
    bool force = false;     // replace OUT
    std::string command_line;
    // Called with the directory that becomes OUT, before it does; what it throws ends the
    // conversion.
    std::function<void(const std::string& finished)> check;
    std::function<void(i64 bytes)> progress;  // tensor bytes written so far; may be empty
};

struct ConversionReport {
    i64 n_tensors = 0;
    i64 n_bytes = 0;
    bool has_tokenizer = false;
    i64 end_of_document = -1;
};

// Throws Error(usage) when `out` exists without `force`, lies around or is one of `ins`, or is a
// directory that is no model at all: --force never removes anything else.
io::AtomicDirectory make_output(const std::string& out, const std::vector<std::string>& ins,
                                bool force);

}  // namespace lm::convert
