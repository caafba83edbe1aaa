// SPDX-License-Identifier: Apache-2.0
// Rewrites a step as a training with another layout would have written it. No training needs this,
// because any layout loads any checkpoint. Its use is to get fewer or smaller files, or files for
// programs that expect a certain layout.
#pragma once

#include <functional>
#include <string>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/save.hpp"

namespace lm::ckpt {

// Saves `from`, including its optimizer state, in the existing `directory`, with one file of
// weights and one file of optimizer state for each of tp * pp ranks. The elements of all tensors,
// and the manifest's fields about the run, do not change. The memory that it uses does not grow
// with the size of the tensors. `progress` gets the bytes written so far; it may be empty. Throws
// Error(usage) when there are more stages than layers, DamageError when `from` does not match its
// digests.
SaveResult reshard(const Checkpoint& from, i64 tp, i64 pp, const std::string& directory,
                   const std::function<void(i64 n_bytes)>& progress);

}  // namespace lm::ckpt
