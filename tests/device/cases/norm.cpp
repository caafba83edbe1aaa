// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

Dropout NormCase::dropout(const Views& v) const {
    Dropout d = dropout_of(p, v, 2);
    if (n_rows > 0) d.first_row = first_row;
    if (n_rows > 0) d.sample_rows = length;
    return d;
}

namespace {

Values norm_formula(const NormCase& c, const Values& v) {
    const i64 n = c.rows();
    vector<double> sum(at(n * c.width));
    vector<double> y(sum.size());
    vector<double> mean(at(n), 0.0);
    vector<double> rstd(at(n), 0.0);
    const auto width = static_cast<double>(c.width);
    for (i64 row = 0; row < n; ++row) {
        double square = 0;
        for (i64 i = row * c.width; i < (row + 1) * c.width; ++i) {
            if (c.residual) sum[at(i)] = v.at("residual")[at(i)];
            const i64 place = c.first_row + row;
            const double sample = c.p > 0 ? v.at("sample_ids")[at(place / c.length)] : 0;
            const i64 element = place % c.length * c.width + i % c.width;
            if (c.branch) {
                sum[at(i)] += v.at("branch")[at(i)] * dropout_factor(c.p, 2, sample, element);
            }
            mean[at(row)] += sum[at(i)] / width;
            square += sum[at(i)] * sum[at(i)] / width;
        }
        if (c.norm == Norm::rms_norm) mean[at(row)] = 0;
        rstd[at(row)] = std::pow(square - mean[at(row)] * mean[at(row)] + 1e-5, -0.5);
        for (i64 i = row * c.width; c.y && i < (row + 1) * c.width; ++i) {
            const size_t column = at(i % c.width);
            y[at(i)] = (sum[at(i)] - mean[at(row)]) * rstd[at(row)] *
                       (v.at("weight")[column] + (c.one_plus ? 1.0 : 0.0));
            if (c.bias) y[at(i)] += v.at("bias")[column];
        }
    }
    Values result;
    if (c.sum) result["sum"] = sum;
    if (c.y) result["y"] = y;
    if (c.y) result["rstd"] = rstd;
    if (c.y && c.norm == Norm::layer_norm) result["mean"] = mean;
    return result;
}

// The sums over rows of the branch's gradient, which are added to `dbranch_bias`.
Values branch_bias_formula(const NormCase& c, const Values& v) {
    vector<double> sums = c.accumulate ? v.at("dbranch_bias") : vector<double>(at(c.width), 0.0);
    const auto width = static_cast<double>(c.width);
    for (i64 row = 0; row < c.rows(); ++row) {
        const auto normed = [&](i64 column) {
            const bool centred = c.norm == Norm::layer_norm;
            const double mean = centred ? v.at("mean")[at(row)] : 0.0;
            return (v.at("sum")[at(row * c.width + column)] - mean) * v.at("rstd")[at(row)];
        };
        const auto scaled = [&](i64 column) {
            return v.at("dy")[at(row * c.width + column)] *
                   (v.at("weight")[at(column)] + (c.one_plus ? 1.0 : 0.0));
        };
        double mean_g = 0;
        double mean_gx = 0;
        for (i64 i = 0; c.y && i < c.width; ++i) {
            if (c.norm == Norm::layer_norm) mean_g += scaled(i) / width;
            mean_gx += scaled(i) * normed(i) / width;
        }
        const i64 place = c.first_row + row;
        const double sample = c.p > 0 ? v.at("sample_ids")[at(place / c.length)] : 0;
        for (i64 i = 0; i < c.width; ++i) {
            double d = v.at("dsum_in")[at(row * c.width + i)];
            if (c.y) d += v.at("rstd")[at(row)] * (scaled(i) - mean_g - normed(i) * mean_gx);
            const i64 element = place % c.length * c.width + i;
            if (c.branch) d *= dropout_factor(c.p, 2, sample, element);
            sums[at(i)] += d;
        }
    }
    return {{"dbranch_bias", sums}};
}

void add_branch_bias(OpCase& backward, const NormCase& c) {
    if (!c.branch_bias) return;
    backward.name += c.accumulate ? " branch_bias" : " branch_bias overwritten";
    backward.tensors.push_back(row_sums(c.accumulate, "dbranch_bias", c.width));
    backward.rounds_first = true;
    backward.formula = [c](const Values& v) { return branch_bias_formula(c, v); };
}

// Adds the backward case without a norm, which is the residual sum at the end of a pipeline stage.
void add_join_backward(OpList& list, const NormCase& c, const OpCase& forward) {
    const Shape full{c.rows(), c.width};
    OpCase b;
    b.name = "residual_norm_backward " + forward.name;
    b.forward = std::make_shared<OpCase>(forward);
    b.tensors = {in("dsum_in", full), out("dsum", full), out("dbranch", full)};
    if (c.p > 0) b.tensors.push_back(b.forward->tensor("sample_ids"));
    b.upstream = {{"sum", "dsum_in"}};
    b.gradients = {{"residual", "dsum"}, {"branch", "dbranch"}};
    b.call = [c](Context& context, const Views& v) {
        ResidualNormBackward args;
        args.dsum_in = v["dsum_in"];
        args.dsum = v["dsum"];
        args.dropout = c.dropout(v);
        args.dbranch = v["dbranch"];
        args.accumulate = c.accumulate;
        args.dbranch_bias = v["dbranch_bias"];
        residual_norm_backward(context, args);
    };
    add_branch_bias(b, c);
    list.push_back(b);
}

}  // namespace

void add_norm(OpList& list, const NormCase& c) {
    const i64 n = c.rows();
    const Shape full{n, c.width};
    const bool centred = c.norm == Norm::layer_norm;
    const std::string shape = fmt::format(
        "B={} T={} C={} rms={} branch={} residual={} sum={} y={} bias={} p={} rows={}+{}{}",
        c.batch, c.length, c.width, !centred, c.branch, c.residual, c.sum, c.y, c.bias, c.p,
        c.first_row, n, c.one_plus ? " 1+weight" : "");
    OpCase f;
    f.name = "residual_norm_forward " + shape;
    if (c.branch) f.tensors.push_back(in("branch", full));
    if (c.residual) f.tensors.push_back(in("residual", full));
    if (c.p > 0) f.tensors.push_back(sample_ids(c.batch));
    if (c.sum) f.tensors.push_back(out("sum", full));
    if (c.y) {
        f.tensors.push_back(in("weight", {c.width}));
        f.tensors.push_back(out("y", full));
        f.tensors.push_back(out("rstd", {n}, Kind::stat));
        if (centred) f.tensors.push_back(out("mean", {n}, Kind::stat));
        if (c.bias) f.tensors.push_back(in("bias", {c.width}));
    }
    f.call = [c](Context& context, const Views& v) {
        residual_norm_forward(
            context, {c.norm, 1e-5, v["branch"], v["residual"], c.dropout(v), v["sum"], v["weight"],
                      v["bias"], v["y"], v["mean"], v["rstd"], c.one_plus});
    };
    f.formula = [c](const Values& v) { return norm_formula(c, v); };
    f.rounds_first = true;
    f.bound = c.width < 3 ? 1e-3 : 1e-5;  // one or two columns: rstd is as large as 1/sqrt(eps)
    list.push_back(f);
    if (!c.sum) return;
    if (!c.y) return add_join_backward(list, c, f);
    OpCase b;
    b.name = "residual_norm_backward " + shape;
    b.bound = c.width < 3 ? 1e-2 : 2e-5;
    b.forward = std::make_shared<OpCase>(f);
    b.tensors = {in("dy", full),
                 in("sum", full),
                 in("weight", {c.width}),
                 stat_in("rstd", {n}),
                 in("dsum_in", full),
                 out("dsum", full),
                 row_sums(c.accumulate, "dweight", c.width)};
    b.upstream = {{"y", "dy"}, {"sum", "dsum_in"}};
    b.gradients = {{"weight", "dweight"}};
    if (centred) b.tensors.push_back(stat_in("mean", {n}));
    if (c.p > 0) b.tensors.push_back(f.tensor("sample_ids"));
    if (c.residual) b.gradients.emplace_back("residual", "dsum");
    if (c.branch) {
        b.tensors.push_back(out("dbranch", full));
        b.gradients.emplace_back("branch", "dbranch");
    }
    if (c.bias) {
        b.tensors.push_back(row_sums(c.accumulate, "dbias", c.width));
        b.gradients.emplace_back("bias", "dbias");
    }
    b.call = [c](Context& context, const Views& v) {
        residual_norm_backward(
            context, {c.norm, v["dy"], v["sum"], v["weight"], v["mean"], v["rstd"], v["dsum_in"],
                      v["dsum"], c.dropout(v), v["dbranch"], v["dweight"], v["dbias"], c.one_plus,
                      c.accumulate, v["dbranch_bias"]});
    };
    add_branch_bias(b, c);
    list.push_back(b);
}

}  // namespace lm::test
