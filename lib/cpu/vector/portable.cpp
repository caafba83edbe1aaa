// SPDX-License-Identifier: Apache-2.0
// The inner loops for any processor.
#include "cpu/vector/vector_kernels.hpp"
// all_loops.hpp must be the last header, because it uses the headers above without including them.
#include "cpu/vector/all_loops.hpp"

namespace lm::cpu {
const VectorKernels portable_kernels = kernels_of("portable");
}  // namespace lm::cpu
