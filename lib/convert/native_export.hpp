// SPDX-License-Identifier: Apache-2.0
// Produces tensors of other formats from a checkpoint of lm-utils, in bounded pieces.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ckpt/format/checkpoint.hpp"
#include "convert/tensor_map.hpp"
#include "convert/whole_tensors.hpp"

namespace lm::convert {

// A tensor of another format: values of tensors of lm-utils, of the kind `kind`, converted to
// `dtype`.
struct ExportedTensor {
    MappedTensor map;
    ckpt::SliceKind kind = ckpt::SliceKind::weight;
    DType dtype = DType::fp32;
    i64 n_bytes() const { return map.numel() * size_of(dtype); }
};

// Calls `sink` in the calling thread with the bytes of all tensors, in order, while other threads
// read and convert the next chunks of 16 MiB. Keeps a whole tensor in memory only when it is
// transposed, and at most two such tensors. Throws Error(failure) naming the tensor when the
// conversion of its masters or moments creates numbers that are not finite.
void write_tensors(const ckpt::Checkpoint& checkpoint, std::span<const ExportedTensor> tensors,
                   const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace lm::convert
