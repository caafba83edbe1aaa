// SPDX-License-Identifier: Apache-2.0
// The fastest way to do a matrix product, by measurement: the algorithms that the library's
// heuristics find best, with the epilogue fused and, where our own kernels might be quicker, apart.
#pragma once

#include "cuda/gemm/matmul.hpp"
#include "device/tuned_choices.hpp"

namespace lm::cuda {

// The plan of `key`, the product's: what `choices` knows, or else what is fastest now, which is
// then kept. Runs the product many times over.
Matmul::Plan tuned_plan(Matmul& matmul, device::TunedChoices& choices, device::Context& context,
                        const Product& product, const Matmul::Key& key, Rest rest);

}  // namespace lm::cuda
