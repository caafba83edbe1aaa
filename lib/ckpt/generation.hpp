// SPDX-License-Identifier: Apache-2.0
// Fencing of a checkpoint directory. Each start of a run claims the next generation number by
// creating DIR/generation-N exclusively (O_EXCL). A run with an older number must not write any
// more: ranks of a node that lost the network must not write into the run that replaced them.
//
// The number is checked before a save begins and again right before its rename (save.hpp). Between
// that check and the rename a newer run may still claim the directory. That is safe: the rename
// publishes a complete step or fails, since claim() renames the temporary directory before it
// removes it.
#pragma once

#include <string>

#include "base/types.hpp"

namespace lm::ckpt {

struct Generation {
    std::string directory;
    i64 number = 0;
};

// Claims the next generation of `directory`, which is created if needed. Removes the temporary
// directories of older generations, with a note for each.
Generation claim(const std::string& directory);

// Throws Error(self_stopped) naming the newer run, if there is one.
void check_not_superseded(const Generation& generation);

}  // namespace lm::ckpt
