// SPDX-License-Identifier: Apache-2.0
// Functions that add the cases of an operation, forward and backward, with one shape to the list.
#pragma once

#include <vector>

#include "device/cases/tensors.hpp"
#include "device/op_case.hpp"

namespace lm::test {

using OpList = std::vector<OpCase>;

void add_embedding(OpList& list, i64 n, i64 vocab, i64 width, bool positions, i64 start);
void add_linear(OpList& list, i64 n, i64 m, i64 k, bool bias, device::Activation activation);
// Adds the forward case of a linear layer whose activation is recomputed.
void add_linear_recomputed(OpList& list, i64 n, i64 m, i64 k, bool bias,
                           device::Activation activation);
void add_gated(OpList& list, i64 n, i64 width, device::Activation gate);
// Heads of `width` elements, of which the first `rotated` are rotated (0: all), and `rest` elements
// after the heads.
struct RotaryCase {
    i64 batch, length, heads, width, rest;
    bool inverse;
    i64 rotated = 0;
    bool interleaved = false;
};
void add_rotary(OpList& list, const RotaryCase& c);

struct NormCase {
    i64 batch, length, width;
    device::Norm norm = device::Norm::layer_norm;
    bool branch = true, residual = true, sum = true, y = true, bias = true;
    double p = 0;
    i64 first_row = 0, n_rows = 0;  // part of the samples' rows; n_rows 0: all
    bool one_plus = false;
    bool branch_bias = false;  // backward: also the gradient of the branch's bias
    bool accumulate = true;    // backward

    i64 rows() const { return n_rows > 0 ? n_rows : batch * length; }
    device::Dropout dropout(const Views& v) const;
};
void add_norm(OpList& list, const NormCase& c);

struct HeadNormCase {
    i64 batch, length, heads, groups, width;
    device::Norm norm = device::Norm::layer_norm;
    bool one_plus = false;
    bool accumulate = true;  // backward

    bool bias() const { return norm == device::Norm::layer_norm; }
};
void add_head_norm(OpList& list, const HeadNormCase& c);

// A row has `query`, then `key`, then `rest` columns. `share` is the share of the query's and the
// key's columns.
struct JointNormCase {
    i64 batch, length, query, key, rest;
    double share = 1;
    bool one_plus = false;
    bool accumulate = true;  // backward
};
void add_joint_norm(OpList& list, const JointNormCase& c);

struct AttentionCase {
    i64 batch, length, heads, groups, width;
    bool documents = false, alibi = false;
    double p = 0;
};
void add_attention(OpList& list, const AttentionCase& c);

// The logits are columns [start, start + vocab) of all; the first `valid` of them are tokens.
void add_cross_entropy(OpList& list, i64 n, i64 vocab, i64 valid, i64 start, double scale);
void add_whole_cross_entropy(OpList& list, i64 n, i64 vocab, i64 valid, double scale);
void add_adamw(OpList& list, i64 n, i64 n_parts, bool weight, i64 step);
void add_sums(OpList& list, i64 n, bool accumulate);
void add_fingerprint(OpList& list, i64 n);
void add_simple(OpList& list, i64 n);

}  // namespace lm::test
