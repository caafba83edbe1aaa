// SPDX-License-Identifier: Apache-2.0
// The form of a matrix product (GEMM), which the code for CPU and GPU uses.
#pragma once

namespace lm::device {

// The form of a GEMM c [m, n] = op(a) op(b), which sums over k. The first letter of the name is for
// operand a, the second for operand b: n: used as stored, t: transposed.
// nt: a [m, k], b [n, k]; nn: a [m, k], b [k, n]; tn: a [k, m], b [k, n].
enum class GemmForm { nt, nn, tn };

}  // namespace lm::device
