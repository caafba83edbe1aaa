// SPDX-License-Identifier: Apache-2.0
// The weights of a checkpoint of any layout as one model: whole tensors under our names, in one
// safetensors file, or in several with an index as Hugging Face's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint.hpp"

namespace lm::convert {

struct UnshardRequest {
    std::string out;             // "DIR/NAME.safetensors"
    std::optional<DType> dtype;  // else as stored
    i64 max_shard_bytes = 5'000'000'000;
    bool force = false;                         // replace what is there
    std::function<void(i64 n_bytes)> progress;  // tensor bytes written so far; may be empty
};

struct UnshardReport {
    std::vector<std::string> files;  // the index last, when there is one
    i64 n_tensors = 0;
    i64 n_bytes = 0;
};

// NAME.safetensors; or, when its tensors' bytes are more than fit a shard,
// NAME-00001-of-0000N.safetensors and NAME.safetensors.index.json, which appears last. With `force`
// nothing of an earlier output of that NAME stays. Another type comes from the masters where there
// are some. Tens of megabytes are in memory at a time. Throws Error(usage) when `out` has another
// ending or is there, Error(failure) naming the tensor that fp16 cannot hold.
UnshardReport unshard(const ckpt::Checkpoint& checkpoint, const UnshardRequest& request);

}  // namespace lm::convert
