// SPDX-License-Identifier: Apache-2.0
// Checkpoints of Megatron-LM and Megatron-DeepSpeed as lm-ckpt shows and verifies them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ckpt/format/tensor_source.hpp"

namespace lm::ckpt_tool {

// Returns whether `path` is a checkpoint of Megatron.
bool is_foreign(const std::string& path);
// Returns the program that wrote this checkpoint: "Megatron", or "DeepSpeed" for its files.
std::string_view foreign_program(const std::string& path);

// Each of these functions prints the result of one command for a checkpoint of Megatron and returns
// the exit code.
int list_foreign(const std::string& directory, bool json);
int show_foreign(const std::string& path, bool tensors, bool json);
int verify_foreign(const std::string& path, bool json, bool quiet);

// Opens a checkpoint of lm-utils or Megatron. `weights_only`: opens a checkpoint of Megatron
// without masters and moments.
std::unique_ptr<ckpt::TensorSource> open_tensors(const std::string& path, bool weights_only);

}  // namespace lm::ckpt_tool
