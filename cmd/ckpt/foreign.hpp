// SPDX-License-Identifier: Apache-2.0
// Checkpoints of Megatron-LM and Megatron-DeepSpeed as lm-ckpt shows and verifies them.
#pragma once

#include <optional>
#include <string>

#include "ckpt/checkpoint.hpp"
#include "io/atomic.hpp"

namespace lm::ckpt_tool {

// Returns whether `path` is a checkpoint of Megatron.
bool is_foreign(const std::string& path);

// Each prints the result of a command for a checkpoint of Megatron and returns the exit code.
int list_foreign(const std::string& directory, bool json);
int show_foreign(const std::string& path, bool tensors, bool json);
int verify_foreign(const std::string& path, bool json, bool quiet);

// A checkpoint, or the temporary copy of one of Megatron in the format of lm-utils, which is
// removed with the object.
class OpenedCheckpoint {
  public:
    // Copies a checkpoint of Megatron below $TMPDIR or /tmp; with `weights_only` without masters
    // and moments.
    static OpenedCheckpoint open(const std::string& path, bool weights_only);
    const ckpt::Checkpoint& checkpoint() const { return *checkpoint_; }

  private:
    std::optional<io::AtomicDirectory> copy_;
    std::optional<ckpt::Checkpoint> checkpoint_;
};

}  // namespace lm::ckpt_tool
