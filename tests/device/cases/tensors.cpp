// SPDX-License-Identifier: Apache-2.0
#include "device/cases/tensors.hpp"

#include <cmath>

#include "base/rng.hpp"

namespace lm::test {

using device::Dropout;
using std::vector;

namespace {
u64 next_key = 1;
constexpr u64 dropout_seed = 1234;
constexpr i32 dropout_layer = 3;
constexpr u64 big_sample = (u64{1} << 33) + 5;
}  // namespace

void restart_values() {
    next_key = 1;
}

vector<double> random_values(i64 n, double scale) {
    const u64 key = next_key++;
    vector<double> values(at(n));
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<double>(static_cast<float>(normal(key, i) * scale));
    }
    return values;
}

Tensor in(const std::string& name, const Shape& shape, double scale) {
    return {name, Kind::compute, Role::input, shape, random_values(shape.numel(), scale)};
}
Tensor out(const std::string& name, const Shape& shape, Kind kind) {
    return {name, kind, Role::output, shape, {}};
}
Tensor updated(const std::string& name, const Shape& shape, Kind kind) {
    return {name, kind, Role::updated, shape, random_values(shape.numel())};
}
Tensor row_sums(bool accumulate, const std::string& name, i64 n) {
    return accumulate ? updated(name, {n}) : out(name, {n}, Kind::stat);
}
Tensor stat_in(const std::string& name, const Shape& shape) {
    return {name, Kind::stat, Role::input, shape, random_values(shape.numel())};
}
Tensor integers(const std::string& name, Kind kind, const vector<double>& values) {
    return {name, kind, Role::input, {static_cast<i64>(values.size())}, values};
}
Tensor random_integers(const std::string& name, i64 n, i64 begin, i64 end) {
    const u64 key = next_key++;
    vector<double> values(at(n));
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = std::floor(static_cast<double>(begin) +
                               uniform(key, i) * static_cast<double>(end - begin));
    }
    return integers(name, Kind::i32, values);
}

Tensor sample_ids(i64 batch) {
    vector<double> values(at(batch));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(big_sample + 7 * i);
    return integers("sample_ids", Kind::i64, values);
}

Dropout dropout_of(double p, const Views& views, i32 site) {
    Dropout d;
    d.p = p;
    d.seed = dropout_seed;
    d.layer = dropout_layer;
    d.site = site;
    d.sample_ids = p > 0 ? views["sample_ids"] : device::View{};
    return d;
}

double dropout_factor(double p, i32 site, double sample, i64 element) {
    if (p == 0) return 1.0;
    const device::DropoutMask mask(p, dropout_seed, dropout_layer, site);
    return mask.factor(static_cast<i64>(sample), element);
}

}  // namespace lm::test
