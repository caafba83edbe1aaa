// SPDX-License-Identifier: Apache-2.0
// Produces tensors of other formats from a checkpoint of lm-utils, in bounded pieces.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ckpt/checkpoint.hpp"
#include "convert/tensor_map.hpp"

namespace lm::convert {

// Reads tensors of one kind in one type. Not thread-safe.
class NativeExport {
  public:
    // `checkpoint` outlives the object.
    NativeExport(const ckpt::Checkpoint& checkpoint, ckpt::SliceKind kind, DType dtype)
        : checkpoint_(checkpoint), kind_(kind), dtype_(dtype) {}

    DType dtype() const { return dtype_; }
    i64 bytes_of(const MappedTensor& tensor) const { return tensor.numel() * size_of(dtype_); }

    // Calls `sink` with the bytes of the tensor, in order. Holds the whole tensor in memory only
    // when it is transposed. Throws Error(failure) naming the tensor when the conversion to `dtype`
    // creates numbers that are not finite.
    using Sink = std::function<void(std::span<const std::byte>)>;
    void write(const MappedTensor& tensor, const Sink& sink);

  private:
    void load(const RowRange& range, const MappedTensor& tensor, std::byte* to) const;
    void write_in_bands(const MappedTensor& tensor, const Sink& sink);
    void write_transposed(const MappedTensor& tensor, const Sink& sink);
    void check_finite(const std::string& tensor, std::span<const std::byte> bytes) const;

    const ckpt::Checkpoint& checkpoint_;
    ckpt::SliceKind kind_;
    DType dtype_;
    std::vector<std::byte> whole_;
    std::vector<std::byte> band_;
};

}  // namespace lm::convert
