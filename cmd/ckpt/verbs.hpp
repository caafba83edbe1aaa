// SPDX-License-Identifier: Apache-2.0
// The verbs of lm-ckpt: each declares its options and returns the exit code of its work.
#pragma once

#include <string>
#include <vector>

#include "ckpt/verify.hpp"
#include "cli/options.hpp"

namespace lm::ckpt_tool {

void add_ls(cli::Options& options);
void add_show(cli::Options& options);
void add_verify(cli::Options& options);
void add_latest(cli::Options& options);
void add_diff(cli::Options& options);
void add_prune(cli::Options& options);
void add_copy(cli::Options& options);
void add_unshard(cli::Options& options);
void add_reshard(cli::Options& options);
void add_merge(cli::Options& options, const std::string& command_line);

// An existing directory, without slashes at the end. Throws Error(usage).
std::string existing_directory(std::string path);
// The last part of a path.
std::string base_name(const std::string& path);
// Is this the path of one step (not of a directory of steps)?
bool is_step_path(const std::string& path);
i64 directory_bytes(const std::string& path);
// ckpt::verify() with its progress on stderr.
ckpt::Verification verify_step(const std::string& path, bool quiet);
// "120" or "global_step120"; throws Error(usage) naming `object`.
i64 parse_step(const std::string& object, const std::string& text);
std::vector<std::string> split_at_commas(const std::string& text);

}  // namespace lm::ckpt_tool
