// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

namespace {

Values formula(const HeadNormCase& c, const Values& v) {
    const vector<double>& x = v.at("x");
    vector<double> y = x;
    const auto n = static_cast<double>(c.width);
    const i64 per_row = c.heads + 2 * c.groups;
    for (i64 head = 0; head < c.batch * c.length * per_row; ++head) {
        if (head % per_row >= c.heads + c.groups) continue;
        const std::string kind = head % per_row < c.heads ? "query" : "key";
        double mean = 0;
        double square = 0;
        for (i64 i = head * c.width; i < (head + 1) * c.width; ++i) {
            mean += x[at(i)] / n;
            square += x[at(i)] * x[at(i)] / n;
        }
        if (c.norm == Norm::rms_norm) mean = 0;
        const double rstd = std::pow(square - mean * mean + 1e-5, -0.5);
        for (i64 i = 0; i < c.width; ++i) {
            double& out = y[at(head * c.width + i)];
            out = (out - mean) * rstd * (v.at(kind + "_weight")[at(i)] + (c.one_plus ? 1 : 0));
            if (c.bias()) out += v.at(kind + "_bias")[at(i)];
        }
    }
    return {{"y", y}};
}

}  // namespace

void add_head_norm(OpList& list, const HeadNormCase& c) {
    const Shape full{c.batch, c.length, (c.heads + 2 * c.groups) * c.width};
    const std::string shape =
        fmt::format("B={} T={} H={} G={} D={} rms={}{}", c.batch, c.length, c.heads, c.groups,
                    c.width, !c.bias(), c.one_plus ? " 1+weight" : "");
    OpCase f;
    f.name = "head_norm_forward " + shape;
    f.bound = c.width < 3 ? 1e-3 : 1e-5;
    f.tensors = {in("x", full), in("query_weight", {c.width}), in("key_weight", {c.width}),
                 out("y", full)};
    if (c.bias()) f.tensors.push_back(in("query_bias", {c.width}));
    if (c.bias()) f.tensors.push_back(in("key_bias", {c.width}));
    f.call = [c](Context& context, const Views& v) {
        head_norm_forward(
            context, {c.norm, 1e-5, v["x"], v["query_weight"], v["query_bias"], v["key_weight"],
                      v["key_bias"], v["y"], c.heads, c.groups, c.one_plus});
    };
    f.formula = [c](const Values& v) { return formula(c, v); };
    list.push_back(f);
    OpCase b;
    b.name = "head_norm_backward " + shape;
    b.bound = c.width < 3 ? 1e-2 : 2e-5;
    b.forward = std::make_shared<OpCase>(f);
    b.tensors = {in("dy", full),
                 in("x", full),
                 in("query_weight", {c.width}),
                 in("key_weight", {c.width}),
                 out("dx", full),
                 row_sums(c.accumulate, "dquery_weight", c.width),
                 row_sums(c.accumulate, "dkey_weight", c.width)};
    b.upstream = {{"y", "dy"}};
    b.gradients = {{"x", "dx"}, {"query_weight", "dquery_weight"}, {"key_weight", "dkey_weight"}};
    if (c.bias()) {
        b.tensors.push_back(row_sums(c.accumulate, "dquery_bias", c.width));
        b.tensors.push_back(row_sums(c.accumulate, "dkey_bias", c.width));
        b.gradients.emplace_back("query_bias", "dquery_bias");
        b.gradients.emplace_back("key_bias", "dkey_bias");
    }
    b.call = [c](Context& context, const Views& v) {
        head_norm_backward(
            context, {c.norm, 1e-5, v["dy"], v["x"], v["query_weight"], v["key_weight"], v["dx"],
                      v["dquery_weight"], v["dquery_bias"], v["dkey_weight"], v["dkey_bias"],
                      c.heads, c.groups, c.one_plus, c.accumulate});
    };
    list.push_back(b);
}

namespace {

// The columns of other ranks are zero, so the sums of this rank are those of all ranks.
Values joint_formula(const JointNormCase& c, const Values& v) {
    const vector<double>& x = v.at("x");
    vector<double> y = x;
    vector<double> sums;
    i64 begin = 0;
    for (const std::string kind : {"query", "key"}) {
        const vector<double>& weight = v.at(kind + "_weight");
        const auto width = static_cast<i64>(weight.size());
        for (i64 row = 0; row < c.batch * c.length; ++row) {
            const i64 first = row * (c.query + c.key + c.rest) + begin;
            double square = 0;
            for (i64 i = 0; i < width; ++i) square += std::pow(x[at(first + i)], 2);
            sums.push_back(square);
            const double rstd =
                std::pow(square / (static_cast<double>(width) / c.share) + 1e-5, -0.5);
            for (i64 i = 0; i < width; ++i)
                y[at(first + i)] *= rstd * (weight[at(i)] + (c.one_plus ? 1 : 0));
        }
        begin += width;
    }
    return {{"y", y}, {"squares", sums}};
}

}  // namespace

void add_joint_norm(OpList& list, const JointNormCase& c) {
    const Shape full{c.batch, c.length, c.query + c.key + c.rest};
    const Shape sums{2, c.batch * c.length};
    const std::string shape =
        fmt::format("B={} T={} Q={} K={} rest={} share={}{}", c.batch, c.length, c.query, c.key,
                    c.rest, c.share, c.one_plus ? " 1+weight" : "");
    OpCase f;
    f.name = "joint_norm_forward " + shape;
    f.bound = c.key < 3 ? 1e-3 : 1e-5;
    f.tensors = {in("x", full), in("query_weight", {c.query}), in("key_weight", {c.key}),
                 out("squares", sums, Kind::stat), out("y", full)};
    f.call = [c](Context& context, const Views& v) {
        joint_norm_sums(
            context,
            {.a = v["x"], .b = v["x"], .query = c.query, .key = c.key, .sums = v["squares"]});
        joint_norm_forward(context, {1e-5, v["x"], v["query_weight"], v["key_weight"], v["squares"],
                                     v["y"], c.share, c.one_plus});
    };
    f.formula = [c](const Values& v) { return joint_formula(c, v); };
    list.push_back(f);
    OpCase b;
    b.name = "joint_norm_backward " + shape;
    b.bound = c.key < 3 ? 1e-2 : 2e-5;
    b.forward = std::make_shared<OpCase>(f);
    b.tensors = {in("dy", full),
                 in("x", full),
                 in("query_weight", {c.query}),
                 in("key_weight", {c.key}),
                 stat_in("squares", sums),
                 out("products", sums, Kind::stat),
                 out("dx", full),
                 row_sums(c.accumulate, "dquery_weight", c.query),
                 row_sums(c.accumulate, "dkey_weight", c.key)};
    b.upstream = {{"y", "dy"}};
    b.gradients = {{"x", "dx"}, {"query_weight", "dquery_weight"}, {"key_weight", "dkey_weight"}};
    b.call = [c](Context& context, const Views& v) {
        joint_norm_sums(context, {v["dy"], v["x"], v["query_weight"], v["key_weight"], c.query,
                                  c.key, c.one_plus, v["products"]});
        joint_norm_backward(context, {1e-5, v["dy"], v["x"], v["query_weight"], v["key_weight"],
                                      v["squares"], v["products"], v["dx"], v["dquery_weight"],
                                      v["dkey_weight"], c.share, c.one_plus, c.accumulate});
    };
    list.push_back(b);
}

}  // namespace lm::test
