// SPDX-License-Identifier: Apache-2.0
// The options of a dataset build, as lm-preprocess(1) describes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "text/choice/tokenizer_choice.hpp"

namespace lm::preprocess {

struct BuildOptions {
    std::vector<std::string> inputs;
    std::string output_prefix;
    bool force = false;
    bool resume = false;
    std::vector<std::string> keys = {"text"};
    text::TokenizerChoice tokenizer;
    bool append_eod = false;
    bool keep_empty = false;
    std::string on_bad_line = "fail";  // "fail", "skip" or "replace"
    i64 divisible_by = 128;            // --make-vocab-size-divisible-by
    std::optional<i64> pad_to;         // --pad-vocab-size-to
    std::optional<std::string> shard;  // "i/n"
    i64 workers = 0;                   // threads; 0: one per core
};

}  // namespace lm::preprocess
