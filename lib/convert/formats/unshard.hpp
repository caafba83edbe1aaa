// SPDX-License-Identifier: Apache-2.0
// Writes the weights of a checkpoint of any layout as one model: whole tensors with the names of
// lm-utils, in one safetensors file, or in several files with an index in the format of Hugging
// Face.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/format/tensor_source.hpp"

namespace lm::convert {

struct UnshardRequest {
    std::string out;             // "DIR/NAME.safetensors"
    std::optional<DType> dtype;  // default: the stored type
    i64 max_shard_bytes = 5'000'000'000;
    bool force = false;  // replace existing files
    // Called with the number of written tensor bytes and the bytes of all tensors; may be empty.
    std::function<void(i64 done, i64 total)> progress;
};

struct UnshardReport {
    std::vector<std::string> files;  // written files; the index, if any, is the last
    i64 n_tensors = 0;
    i64 n_bytes = 0;
};

// Writes NAME.safetensors, or, when the tensors exceed max_shard_bytes,
// NAME-00001-of-0000N.safetensors and NAME.safetensors.index.json, which appears last. With
// `force`, removes all files of an earlier output with that NAME. For another type than the stored
// one, converts the masters if the checkpoint has them, else the weights. Uses tens of megabytes of
// memory. Throws Error(usage) when `out` has another suffix, or exists and `force` is false;
// Error(failure) naming a tensor whose numbers exceed the range of the type.
UnshardReport unshard(const ckpt::TensorSource& source, const UnshardRequest& request);

}  // namespace lm::convert
