// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

void add_adamw(OpList& list, i64 n, bool weight, i64 step) {
    OpCase c;
    c.name = fmt::format("adamw n={} weight={} step={}", n, weight, step);
    Tensor second = updated("v", {n});
    for (double& value : second.values) value = value * value;
    const Tensor grad = stat_in("grad", {n});
    c.tensors = {updated("master", {n}), grad, updated("m", {n}), second};
    if (weight) c.tensors.push_back(out("weight", {n}));
    const auto args = [=](const Views& v) {
        return AdamW{v["master"], v["weight"], v["grad"], v["m"], v["v"], 1e-2,
                     0.9,         0.95,        1e-8,      0.1,    step,   0.5};
    };
    c.call = [args](Context& context, const Views& v) { adamw(context, args(v)); };
    c.formula = [=](const Values& v) {
        Values r = v;
        r.erase("grad");
        r.erase("weight");
        for (size_t i = 0; i < at(n); ++i) {
            const double g = 0.5 * v.at("grad")[i];
            r["m"][i] += 0.1 * (g - v.at("m")[i]);
            r["v"][i] += 0.05 * (g * g - v.at("v")[i]);
            const double t = static_cast<double>(step);
            const double m_hat = r["m"][i] / (1 - std::pow(0.9, t));
            const double v_hat = r["v"][i] / (1 - std::pow(0.95, t));
            r["master"][i] *= 1 - 1e-2 * 0.1;
            r["master"][i] -= 1e-2 * m_hat / (std::sqrt(v_hat) + 1e-8);
        }
        if (weight) r["weight"] = r["master"];
        return r;
    };
    list.push_back(c);
}

void add_sums(OpList& list, i64 n, bool accumulate) {
    Tensor x = stat_in("x", {n});
    for (size_t i = 0; i < x.values.size(); i += 3) x.values[i] = 0;
    const Tensor weight = stat_in("weight", {n});
    const Tensor sum = accumulate ? updated("out", {1}, Kind::f64) : out("out", {1}, Kind::f64);
    const double before = accumulate ? sum.values[0] : 0.0;
    const auto total = [before, n](const auto& term) {
        double result = before;
        for (size_t i = 0; i < at(n); ++i) result += term(i);
        return Values{{"out", {result}}};
    };
    const std::string suffix = fmt::format(" n={} accumulate={}", n, accumulate);
    OpCase squares{
        "sum_squares" + suffix, {x, sum}, [accumulate](Context& context, const Views& v) {
            sum_squares(context, {v["x"], v["out"], accumulate});
        }};
    squares.formula = [total](const Values& v) {
        return total([&](size_t i) { return v.at("x")[i] * v.at("x")[i]; });
    };
    OpCase weighted{
        "weighted_sum" + suffix, {x, weight, sum}, [accumulate](Context& context, const Views& v) {
            weighted_sum(context, {v["x"], v["weight"], v["out"], accumulate});
        }};
    weighted.formula = [total](const Values& v) {
        return total([&](size_t i) { return v.at("x")[i] * v.at("weight")[i]; });
    };
    OpCase zeros{"count_zeros" + suffix, {x, sum}, [accumulate](Context& context, const Views& v) {
                     count_zeros(context, {v["x"], v["out"], accumulate});
                 }};
    zeros.formula = [total](const Values& v) {
        return total([&](size_t i) { return v.at("x")[i] == 0 ? 1.0 : 0.0; });
    };
    for (OpCase* const c : {&squares, &weighted, &zeros}) {
        c->bound = 1e-12;
        list.push_back(*c);
    }
}

void add_simple(OpList& list, i64 n) {
    OpCase filled{
        fmt::format("fill n={}", n), {out("x", {n})}, [](Context& context, const Views& v) {
            fill(context, {v["x"], -1.5});
        }};
    filled.formula = [n](const Values&) { return Values{{"x", vector<double>(at(n), -1.5)}}; };
    OpCase copied{fmt::format("cast n={}", n),
                  {in("x", {n}), out("y", {n})},
                  [](Context& context, const Views& v) {
                      cast(context, {v["x"], v["y"]});
                  }};
    copied.formula = [](const Values& v) { return Values{{"y", v.at("x")}}; };
    OpCase scaled{fmt::format("scale n={}", n),
                  {updated("x", {n}, Kind::compute)},
                  [](Context& context, const Views& v) {
                      scale(context, {v["x"], 0.3});
                  }};
    scaled.formula = [](const Values& v) {
        Values r = v;
        for (double& value : r["x"]) value *= 0.3;
        return r;
    };
    for (const OpCase& c : {filled, copied, scaled}) list.push_back(c);
}

}  // namespace lm::test
