// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

OpCase activation_case(i64 n, i64 m, Activation activation) {
    OpCase c;
    c.name = fmt::format("activation_forward n={} m={} activation={}", n, m,
                         static_cast<int>(activation));
    c.tensors = {in("x", {n, m}, 3.0), out("y", {n, m})};
    c.call = [activation](Context& context, const Views& v) {
        activation_forward(context, {v["x"], v["y"], activation});
    };
    c.formula = [activation](const Values& v) {
        vector<double> y = v.at("x");
        for (double& value : y) value = spec::activation_value(activation, value);
        return Values{{"y", y}};
    };
    return c;
}

namespace {

// y = activation(x w^T + bias): x [n, k], w [m, k].
struct LinearCase {
    i64 n, m, k;
    bool bias;
    Activation activation;
    bool recomputed = false;

    bool active() const { return activation != Activation::none; }
    std::string shape() const {
        return fmt::format("n={} m={} k={} bias={} activation={}", n, m, k, bias,
                           static_cast<int>(activation));
    }
};

OpCase linear_forward_case(const LinearCase& c) {
    OpCase f;
    f.name = (c.recomputed ? "linear_forward recomputed " : "linear_forward ") + c.shape();
    const double scale = 1.0 / std::sqrt(static_cast<double>(c.k));
    f.tensors = {in("x", {c.n, c.k}), in("w", {c.m, c.k}, 2 * scale), out("y", {c.n, c.m})};
    if (c.bias) f.tensors.push_back(in("bias", {c.m}));
    if (c.active()) f.tensors.push_back(out("pre", {c.n, c.m}));
    // The square of pre has twice the relative error that the rounding of pre has.
    if (c.activation == Activation::squared_relu) f.roundings = 2;
    f.call = [c](Context& context, const Views& v) {
        linear_forward(context,
                       {v["x"], v["w"], v["bias"], v["y"], c.activation, v["pre"], c.recomputed});
    };
    f.formula = [c](const Values& v) {
        vector<double> pre(at(c.n * c.m), 0.0);
        for (i64 j = 0; j < c.k; ++j) {
            for (i64 i = 0; i < c.n * c.m; ++i) {
                pre[at(i)] += v.at("x")[at(i / c.m * c.k + j)] * v.at("w")[at(i % c.m * c.k + j)];
            }
        }
        for (i64 i = 0; c.bias && i < c.n * c.m; ++i) pre[at(i)] += v.at("bias")[at(i % c.m)];
        vector<double> y(pre);
        for (double& value : y) value = spec::activation_value(c.activation, value);
        return c.active() ? Values{{"y", y}, {"pre", pre}} : Values{{"y", y}};
    };
    return f;
}

// Gradients of w and bias, without an activation.
OpCase linear_weight_case(const LinearCase& c, const OpCase& forward, bool accumulate) {
    OpCase w;
    w.name = fmt::format("linear_backward_weight {} accumulate={}", c.shape(), accumulate);
    w.forward = std::make_shared<OpCase>(forward);
    const auto target = [accumulate](const std::string& name, const Shape& shape) {
        return accumulate ? updated(name, shape) : out(name, shape, Kind::stat);
    };
    w.tensors = {in("dy", {c.n, c.m}), w.forward->tensor("x"), target("dw", {c.m, c.k})};
    if (c.bias) w.tensors.push_back(target("dbias", {c.m}));
    w.call = [accumulate](Context& context, const Views& v) {
        linear_backward_weight(context, {v["dy"], v["x"], v["dw"], v["dbias"], accumulate});
    };
    w.upstream = {{"y", "dy"}};
    w.gradients = {{"w", "dw"}};
    if (c.bias) w.gradients.emplace_back("bias", "dbias");
    return w;
}

// Gradient of pre, where x = activation(pre) is the input of the layer: the forward case computes
// the activation, then the product.
OpCase linear_input_case(const LinearCase& c, const OpCase& forward) {
    OpCase b;
    b.name = "linear_backward_input " + c.shape();
    b.forward = std::make_shared<OpCase>(forward);
    b.tensors = {in("dy", {c.n, c.m}), b.forward->tensor("w"), out("dx", {c.n, c.k})};
    if (c.active()) b.tensors.push_back(in("pre_activation", {c.n, c.k}));
    b.call = [c](Context& context, const Views& v) {
        linear_backward_input(context,
                              {v["dy"], v["w"], v["dx"], c.activation, v["pre_activation"]});
    };
    b.formula = [c](const Values& v) {
        vector<double> dx(at(c.n * c.k), 0.0);
        for (i64 j = 0; j < c.m; ++j) {
            for (i64 i = 0; i < c.n * c.k; ++i) {
                dx[at(i)] += v.at("dy")[at(i / c.k * c.m + j)] * v.at("w")[at(j * c.k + i % c.k)];
            }
        }
        for (i64 i = 0; c.active() && i < c.n * c.k; ++i) {
            const double x = v.at("pre_activation")[at(i)];
            constexpr double h = 1e-5;
            dx[at(i)] *= (spec::activation_value(c.activation, x + h) -
                          spec::activation_value(c.activation, x - h)) /
                         (2 * h);
        }
        return Values{{"dx", dx}};
    };
    if (c.active()) {
        b.forward = nullptr;
    } else {
        b.upstream = {{"y", "dy"}};
        b.gradients = {{"x", "dx"}};
    }
    return b;
}

}  // namespace

void add_linear(OpList& list, i64 n, i64 m, i64 k, bool bias, Activation activation) {
    const LinearCase c{n, m, k, bias, activation};
    const OpCase forward = linear_forward_case(c);
    list.push_back(forward);
    if (c.active()) {
        list.push_back(activation_case(n, m, activation));
    } else {
        list.push_back(linear_weight_case(c, forward, false));
        list.push_back(linear_weight_case(c, forward, true));
    }
    list.push_back(linear_input_case(c, forward));
}

void add_linear_recomputed(OpList& list, i64 n, i64 m, i64 k, bool bias, Activation activation) {
    list.push_back(linear_forward_case({n, m, k, bias, activation, true}));
}

}  // namespace lm::test
