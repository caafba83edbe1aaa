// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <complex>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

// Complex numbers: each pair times exp(+-i t).
void add_rotary(OpList& list, const RotaryCase& c) {
    const i64 rotated = c.rotated > 0 ? c.rotated : c.width;
    const i64 half = rotated / 2;
    OpCase f;
    f.name =
        fmt::format("rotary B={} T={} heads={} D={} R={} rest={} inverse={} interleaved={}",
                    c.batch, c.length, c.heads, c.width, rotated, c.rest, c.inverse, c.interleaved);
    const i64 stride = c.heads * c.width + c.rest;
    Tensor angles{"angles", Kind::stat, Role::input, {2 * c.length, rotated}, {}};
    const auto angle = [rotated](i64 position, i64 i) {
        return static_cast<double>(position) *
               std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
    };
    for (i64 p = 0; p < 2 * c.length; ++p) {
        for (i64 i = 0; i < half; ++i) angles.values.push_back(std::cos(angle(p, i)));
        for (i64 i = 0; i < half; ++i) angles.values.push_back(std::sin(angle(p, i)));
    }
    Tensor positions = random_integers("positions", c.batch * c.length, 0, 2 * c.length);
    positions.shape = {c.batch, c.length};
    f.tensors = {updated("x", {c.batch, c.length, stride}, Kind::compute), positions, angles};
    f.call = [c](Context& context, const Views& v) {
        rotary(context,
               {v["x"], v["positions"], v["angles"], c.heads, c.width, c.inverse, c.interleaved});
    };
    f.formula = [=](const Values& v) {
        vector<double> x = v.at("x");
        for (i64 pair = 0; pair < c.batch * c.length * c.heads * half; ++pair) {
            const i64 row = pair / (c.heads * half);
            const i64 head = pair / half % c.heads;
            const i64 i = pair % half;
            const auto position = static_cast<i64>(v.at("positions")[at(row)]);
            const double turn = angle(position, i) * (c.inverse ? -1 : 1);
            const i64 first = row * stride + head * c.width + (c.interleaved ? 2 * i : i);
            double& a = x[at(first)];
            double& b = x[at(first + (c.interleaved ? 1 : half))];
            const std::complex<double> turned = std::complex<double>(a, b) * std::polar(1.0, turn);
            a = turned.real();
            b = turned.imag();
        }
        return Values{{"x", x}};
    };
    list.push_back(f);
}

}  // namespace lm::test
