// SPDX-License-Identifier: Apache-2.0
// Reads parts of the tensors of a model, from a checkpoint of lm-utils or from files of another
// format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ckpt/format/block_reader.hpp"
#include "ckpt/format/manifest.hpp"

namespace lm::ckpt {

class TensorSource {
  public:
    virtual ~TensorSource() = default;

    virtual const std::string& path() const = 0;
    virtual const spec::ModelConfig& model() const = 0;
    virtual i64 iteration() const = 0;
    virtual const std::vector<TensorInfo>& tensors() const = 0;
    virtual const TensorInfo* find(std::string_view tensor) const = 0;  // nullptr: no such tensor
    virtual bool has(SliceKind kind) const = 0;
    // Reads a part of a tensor. For SliceKind::master, a source without masters reads its weights.
    // Thread-safe.
    virtual void load(const std::string& tensor, SliceKind kind,
                      const LoadTarget& target) const = 0;
};

}  // namespace lm::ckpt
