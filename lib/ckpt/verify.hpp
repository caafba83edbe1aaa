// SPDX-License-Identifier: Apache-2.0
// Looks at every byte of a checkpoint: digests, checksums, shapes, that each tensor is covered
// exactly once, and that its numbers are finite.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ckpt/checkpoint.hpp"

namespace lm::ckpt {

struct Verification {
    std::vector<std::string> problems;  // "file or tensor: what"; empty: the step is good
    i64 n_tensors = 0;
    i64 n_slices = 0;
    i64 n_bytes = 0;  // of tensor data that was read
    i64 n_non_finite = 0;
};

// `step_path` is a global_stepN directory. Damage is never thrown but reported, all of it as far as
// it can be told apart. `progress` gets the bytes read so far.
Verification verify(const std::string& step_path, const std::function<void(i64)>& progress);

}  // namespace lm::ckpt
