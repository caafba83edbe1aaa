// SPDX-License-Identifier: Apache-2.0
// Verifies every byte of a checkpoint: digests, checksums, shapes, that the slices cover each
// tensor exactly once, and that all numbers are finite.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/format/checkpoint.hpp"

namespace lm::ckpt {

struct Problem {
    std::string file;         // a file of the step, or its directory
    std::string tensor = {};  // empty: no tensor is known
    std::string kind = {};    // kind of the state; may be empty
    std::string text = {};
    std::string line() const;  // "FILE: tensor NAME (KIND): TEXT", without the empty fields
};

struct Verification {
    std::vector<Problem> problems;  // empty: the step is valid
    i64 n_tensors = 0;
    i64 n_slices = 0;
    i64 n_bytes = 0;  // bytes of tensor data that were read
    i64 n_non_finite = 0;
};

// Verifies the global_stepN directory `step_path`. Does not throw for corruption: `problems` has an
// entry for each corrupt part. An error of the system (EIO, EACCES) throws Error(failure).
// `progress` gets the number of bytes read so far.
Verification verify(const std::string& step_path, const std::function<void(i64)>& progress);

// Verifies the part of the bytes that belongs to rank number share.index of share.count ranks:
// checks the digests of index parts, headers and data, and that numbers are finite. All shares
// together verify every byte once. Each rank reads one index part, or several if there are more
// parts than ranks. `manifest`: the text of the manifest, which another rank has read. Reports and
// throws errors as verify() does. `progress` returns whether to continue; after false, the result
// is incomplete.
Verification verify_share(const std::string& step_path, const Share& share,
                          std::string_view manifest, const std::function<bool(i64)>& progress);

}  // namespace lm::ckpt
