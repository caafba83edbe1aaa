// SPDX-License-Identifier: Apache-2.0
// A step as another grid of ranks would have written it. No run needs that, since any layout loads
// any checkpoint; it is for fewer, or smaller, files to open, and for programs that want a layout.
#pragma once

#include <functional>
#include <string>

#include "ckpt/checkpoint.hpp"
#include "ckpt/save.hpp"

namespace lm::ckpt {

// Saves all that `from` has, optimizer state included, in `directory`, which must be there, with
// one file of weights and one of optimizer state for each of tp * pp ranks. Every number, and what
// the manifest says of the run, is the same. Tens of megabytes are in memory at a time. `progress`
// gets the bytes written so far; it may be empty. Throws Error(usage) when there are more stages
// than layers, DamageError when `from` does not fit its digests.
SaveResult reshard(const Checkpoint& from, i64 tp, i64 pp, const std::string& directory,
                   const std::function<void(i64 n_bytes)>& progress);

}  // namespace lm::ckpt
