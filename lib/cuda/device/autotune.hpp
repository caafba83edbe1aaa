// SPDX-License-Identifier: Apache-2.0
// Autotuning of matrix products: measures the algorithms that cuBLASLt's heuristics rank best, with
// the epilogue fused into the product and, where these might be faster, with separate kernels.
#pragma once

#include "cuda/device/cublas_matmul.hpp"
#include "device/tuned_choices.hpp"

namespace lm::cuda {

// Returns the plan that `choices` has stored for `key`, the key of `product`. If no plan is stored,
// measures the candidates and stores the fastest plan. Measuring runs the product many times and
// overwrites its outputs. Throws Error(failure) when the stored plan is malformed, or cuBLASLt does
// not accept its algorithm.
CublasMatmul::Plan tuned_plan(CublasMatmul& matmul, device::TunedChoices& choices,
                              device::Context& context, const FusedProduct& product,
                              const CublasMatmul::Key& key, Rest rest);

}  // namespace lm::cuda
