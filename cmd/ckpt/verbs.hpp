// SPDX-License-Identifier: Apache-2.0
// The verbs of lm-ckpt. Each add_X() declares the options of one verb.
#pragma once

#include <string>

#include "ckpt/verbs/verify.hpp"
#include "cli/options.hpp"

namespace lm::ckpt_tool {

void add_ls(cli::Options& options);
void add_show(cli::Options& options);
void add_verify(cli::Options& options);
void add_latest(cli::Options& options);
void add_diff(cli::Options& options);
void add_prune(cli::Options& options);
void add_copy(cli::Options& options);
void add_sync(cli::Options& options);
void add_unshard(cli::Options& options);
void add_reshard(cli::Options& options);
void add_merge(cli::Options& options, const std::string& command_line);
void add_repair(cli::Options& options, const std::string& command_line);
void add_generate(cli::Options& options);
void add_score(cli::Options& options);

// Logs a warning for each problem.
void warn_of_problems(const ckpt::Verification& result);
// Calls ckpt::verify() and, unless `quiet`, shows the progress on stderr.
ckpt::Verification verify_step(const std::string& path, bool quiet);

}  // namespace lm::ckpt_tool
