// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

void add_gated(OpList& list, i64 n, i64 width, Activation gate) {
    const std::string shape = fmt::format("n={} F={} gate={}", n, width, static_cast<int>(gate));
    OpCase f;
    f.name = "gated_forward " + shape;
    f.tensors = {in("x", {n, 2 * width}, 3.0), out("y", {n, width})};
    f.call = [gate](Context& context, const Views& v) {
        gated_forward(context, {gate, v["x"], v["y"]});
    };
    f.formula = [=](const Values& v) {
        vector<double> y(at(n * width));
        for (i64 i = 0; i < n * width; ++i) {
            const double* const row = v.at("x").data() + i / width * 2 * width;
            y[at(i)] = spec::activation_value(gate, row[i % width]) * row[width + i % width];
        }
        return Values{{"y", y}};
    };
    OpCase b;
    b.name = "gated_backward " + shape;
    b.forward = std::make_shared<OpCase>(f);
    b.tensors = {in("dy", {n, width}), f.tensors[0], out("dx", {n, 2 * width})};
    b.call = [gate](Context& context, const Views& v) {
        gated_backward(context, {gate, v["dy"], v["x"], v["dx"]});
    };
    b.upstream = {{"y", "dy"}};
    b.gradients = {{"x", "dx"}};
    list.push_back(f);
    list.push_back(b);
}

}  // namespace lm::test
