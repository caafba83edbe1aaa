// SPDX-License-Identifier: Apache-2.0
// The run guard of a checkpoint directory. Each start of a run takes the next generation number by
// the exclusive creation of DIR/generation-N; whoever holds an older number may not write there any
// more, so that ranks of a cut-off node cannot write into the run that replaced theirs.
#pragma once

#include <string>

#include "base/types.hpp"

namespace lm::ckpt {

struct Generation {
    std::string directory;
    i64 number = 0;
};

// Takes the next generation of `directory` (created when missing), and removes what older ones left
// half-written, with a note.
Generation claim(const std::string& directory);

// Throws Error(self_stopped) naming the newer run when there is one.
void check_not_superseded(const Generation& generation);

}  // namespace lm::ckpt
