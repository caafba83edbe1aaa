// SPDX-License-Identifier: Apache-2.0
// The inner loops of vector_kernels.hpp over vectors of `width` floats. One source file per
// instruction set (portable.cpp, x86/) includes this file inside a region that is compiled for that
// set, and defines LM_VECTOR_AVX512 (and LM_VECTOR_BF16), LM_VECTOR_AVX2 or neither. All functions
// have internal linkage. The parts below must not include other headers, because inline functions
// of those headers would be compiled for the instruction set, too, and the linker might choose them
// for the whole program. The source file includes the necessary headers before the region.
#include "cpu/vector/registers.hpp"
// Elementary functions, 16-bit loads and transposes, which the loops use.
#include "cpu/vector/functions.hpp"
#include "cpu/vector/half.hpp"
#include "cpu/vector/square_transpose.hpp"
// The loops.
#include "cpu/vector/activation.hpp"
#include "cpu/vector/elementwise_loops.hpp"
#include "cpu/vector/norm.hpp"
#include "cpu/vector/packed_product.hpp"
#include "cpu/vector/row_products.hpp"
#include "cpu/vector/small_product.hpp"
#include "cpu/vector/softmax.hpp"

namespace lm::cpu {
namespace {

constexpr VectorKernels kernels_of(const char* name) {
    return {name,
            small_product,
            {packed_rows, strip_cols, 1, pairs_bf16, pack_operand<packed_rows>,
             pack_operand<strip_cols>, packed_product},
            row_products,
            transpose,
            online_softmax,
            recompute_softmax,
            softmax_backward,
            scale,
            multiply,
            add,
            scaled_copy,
            dot,
            activation_loops,
            gate_loops,
            rotate,
            widen_row<Bf16>,
            widen_row<Fp16>,
            narrow_row<Bf16>,
            narrow_row<Fp16>,
            norm_row,
            norm_backward_row,
            online_sum,
            softmax_gradient,
            adamw,
            dropout_factors};
}

}  // namespace
}  // namespace lm::cpu
