// SPDX-License-Identifier: Apache-2.0
// The command line of lm-preprocess: its options and their values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "cli/options.hpp"
#include "preprocess/build.hpp"
#include "text/choice/tokenizer_choice.hpp"

namespace lm::preprocess {

struct Args {
    BuildOptions build;
    std::optional<i64> log_interval;
    bool json = false;
    bool quiet = false;
};

// Throws Error(usage) when `prefix` cannot be the prefix of file names: it is "-", its last
// component is empty, "." or "..", or its directory does not exist.
void check_names_files(const std::string& prefix);

void declare_tokenizer(cli::Options& options, text::TokenizerChoice& choice);
void declare(cli::Options& options, Args& args);
// Throws Error(usage) for missing options and invalid values.
void check(const Args& args);

// Runs the program without a verb.
int preprocess(const Args& args);

// The verbs.
void declare_info(cli::Options& options);
void declare_verify(cli::Options& options);
void declare_cat(cli::Options& options);
void declare_merge(cli::Options& options);
void declare_train_tokenizer(cli::Options& options);
void declare_encode(cli::Options& options);
void declare_decode(cli::Options& options);

}  // namespace lm::preprocess
