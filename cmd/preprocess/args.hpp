// SPDX-License-Identifier: Apache-2.0
// What the command line of lm-preprocess says, and the declaration of its options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "cli/options.hpp"
#include "text/tokenizer_choice.hpp"

namespace lm::preprocess {

struct OutputArgs {
    std::string prefix;
    bool force = false;
};

struct Args {
    std::vector<std::string> inputs;
    OutputArgs output;
    std::vector<std::string> keys = {"text"};
    text::TokenizerChoice tokenizer;
    bool append_eod = false;
    bool keep_empty = false;
    std::string on_bad_line = "fail";
    i64 workers = 0;  // 0: one per core
    i64 divisible_by = 128;
    std::optional<i64> pad_to;
    std::optional<i64> log_interval;
    std::optional<std::string> shard;
    bool resume = false;
    cli::Duration rank_timeout{120};
    bool json = false;
    bool quiet = false;
};

// Error(usage) when `prefix` can only be a directory.
void check_names_files(const std::string& prefix);

void declare_tokenizer(cli::Options& options, text::TokenizerChoice& choice);
void declare(cli::Options& options, Args& args);
void check(const Args& args);  // what the options alone cannot; throws Error(usage)

int preprocess(const Args& args);

// The verbs, each in its own file.
void declare_info(cli::Options& options);
void declare_verify(cli::Options& options);
void declare_cat(cli::Options& options);
void declare_merge(cli::Options& options);
void declare_train_tokenizer(cli::Options& options);
void declare_encode(cli::Options& options);
void declare_decode(cli::Options& options);

}  // namespace lm::preprocess
