// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <complex>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

// Complex numbers: each pair times exp(+-i t).
void add_rotary(OpList& list, i64 batch, i64 length, i64 heads, i64 width, i64 rest, bool inverse) {
    OpCase c;
    c.name = fmt::format("rotary B={} T={} heads={} D={} rest={} inverse={}", batch, length, heads,
                         width, rest, inverse);
    const i64 stride = heads * width + rest;
    Tensor angles{"angles", Kind::stat, Role::input, {2 * length, width}, {}};
    const auto angle = [width](i64 position, i64 i) {
        return static_cast<double>(position) *
               std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    };
    for (i64 p = 0; p < 2 * length; ++p) {
        for (i64 i = 0; i < width / 2; ++i) angles.values.push_back(std::cos(angle(p, i)));
        for (i64 i = 0; i < width / 2; ++i) angles.values.push_back(std::sin(angle(p, i)));
    }
    Tensor positions = random_integers("positions", batch * length, 0, 2 * length);
    positions.shape = {batch, length};
    c.tensors = {updated("x", {batch, length, stride}, Kind::compute), positions, angles};
    c.call = [=](Context& context, const Views& v) {
        rotary(context, {v["x"], v["positions"], v["angles"], heads, width, inverse});
    };
    c.formula = [=](const Values& v) {
        vector<double> x = v.at("x");
        for (i64 pair = 0; pair < batch * length * heads * width / 2; ++pair) {
            const i64 row = pair / (heads * width / 2);
            const i64 head = pair / (width / 2) % heads;
            const i64 i = pair % (width / 2);
            const auto position = static_cast<i64>(v.at("positions")[at(row)]);
            const double turn = angle(position, i) * (inverse ? -1 : 1);
            double& a = x[at(row * stride + head * width + i)];
            double& b = x[at(row * stride + head * width + i + width / 2)];
            const std::complex<double> turned = std::complex<double>(a, b) * std::polar(1.0, turn);
            a = turned.real();
            b = turned.imag();
        }
        return Values{{"x", x}};
    };
    list.push_back(c);
}

}  // namespace lm::test
