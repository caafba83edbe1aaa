// SPDX-License-Identifier: Apache-2.0
// Tensors of operation cases, by role, with random values. The values depend on the order in which
// tensors are created; a list starts with restart_values().
#pragma once

#include <string>
#include <vector>

#include "device/dropout.hpp"
#include "device/op_case.hpp"

namespace lm::test {

void restart_values();
std::vector<double> random_values(i64 n, double scale = 1.0);

Tensor in(const std::string& name, const Shape& shape, double scale = 1.0);
Tensor out(const std::string& name, const Shape& shape, Kind kind = Kind::compute);
Tensor updated(const std::string& name, const Shape& shape, Kind kind = Kind::stat);
// Sums over rows, [n]: accumulated, or overwritten.
Tensor row_sums(bool accumulate, const std::string& name, i64 n);
// An input of kind `stat`.
Tensor stat_in(const std::string& name, const Shape& shape);
Tensor integers(const std::string& name, Kind kind, const std::vector<double>& values);
// [n] int32 in [begin, end).
Tensor random_integers(const std::string& name, i64 n, i64 begin, i64 end);
// [batch] int64; indices above 2^32.
Tensor sample_ids(i64 batch);

// Returns the dropout of layer 3 for the samples "sample_ids", and its factor for one element.
device::Dropout dropout_of(double p, const Views& views, i32 site);
double dropout_factor(double p, i32 site, double sample, i64 element);

inline size_t at(i64 i) {
    return static_cast<size_t>(i);
}

}  // namespace lm::test
