// SPDX-License-Identifier: Apache-2.0
// Initial weights by the tensor table: every element is a function of (seed, tensor name, position
// in the global tensor), so that any layout starts from the same model.
#pragma once

#include "model/params.hpp"

namespace lm::model {

// `weights` is the flat buffer of `map`, zero-filled, of any compute type; padded rows and
// alignment gaps stay zero.
void initialize_weights(const ParamMap& map, device::Device& device, ThreadPool& pool, u64 seed,
                        const View& weights);

}  // namespace lm::model
