// SPDX-License-Identifier: Apache-2.0
// Initial weights as the tensor table specifies them. Every element is a function of the seed, the
// tensor's name and the index in the global tensor, so that all layouts start from the same model.
#pragma once

#include "model/params.hpp"

namespace lm::model {

// Writes the initial weights of this rank. weights: [map.layout().n_elements or more] compute, the
// flat buffer of `map`. It must be zero-filled, because this function does not write padding rows
// and alignment gaps.
void initialize_weights(const ParamMap& map, device::Device& device, ThreadPool& pool, u64 seed,
                        const View& weights);

}  // namespace lm::model
