// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

namespace {

// Attention by its definition: the softmax of a dense matrix of scores, times the values.
Values attention_formula(const AttentionCase& c, const Values& v) {
    const i64 stride = (c.heads + 2 * c.groups) * c.width;
    vector<double> result(at(c.batch * c.length * c.heads * c.width), 0.0);
    vector<double> lse(at(c.batch * c.heads * c.length));
    for (i64 row = 0; row < c.batch * c.heads * c.length; ++row) {
        const i64 sample = row / (c.heads * c.length);
        const i64 head = row / c.length % c.heads;
        const i64 group = head * c.groups / c.heads;
        const i64 query = row % c.length;
        const double* const qkv = v.at("qkv").data() + sample * c.length * stride;
        const i64 first =
            c.documents ? static_cast<i64>(v.at("doc_start")[at(sample * c.length + query)]) : 0;
        vector<double> weights(at(c.length), 0.0);
        for (i64 key = first; key <= query; ++key) {
            double score = 0;
            for (i64 i = 0; i < c.width; ++i) {
                score += qkv[query * stride + head * c.width + i] *
                         qkv[key * stride + (c.heads + group) * c.width + i];
            }
            score /= std::sqrt(static_cast<double>(c.width));
            if (c.alibi) score += v.at("slopes")[at(head)] * static_cast<double>(key - query);
            weights[at(key)] = std::exp(score);
        }
        double sum = 0;
        for (const double weight : weights) sum += weight;
        lse[at(row)] = std::log(sum);
        for (i64 key = first; key <= query; ++key) {
            const double sample_id = c.p > 0 ? v.at("sample_ids")[at(sample)] : 0;
            const i64 element = ((head + 2) * c.length + query) * c.length + key;
            const double weight =
                weights[at(key)] / sum * dropout_factor(c.p, 1, sample_id, element);
            for (i64 i = 0; i < c.width; ++i) {
                result[at(((sample * c.length + query) * c.heads + head) * c.width + i)] +=
                    weight * qkv[key * stride + (c.heads + c.groups + group) * c.width + i];
            }
        }
    }
    return {{"out", result}, {"lse", lse}};
}

}  // namespace

void add_attention(OpList& list, const AttentionCase& c) {
    const std::string shape =
        fmt::format("B={} T={} H={} G={} D={} documents={} alibi={} p={}", c.batch, c.length,
                    c.heads, c.groups, c.width, c.documents, c.alibi, c.p);
    const Shape qkv{c.batch, c.length, (c.heads + 2 * c.groups) * c.width};
    const Shape wide{c.batch, c.length, c.heads * c.width};
    const double scale = 1.0 / std::sqrt(static_cast<double>(c.width));
    OpCase f;
    f.name = "attention_forward " + shape;
    f.tensors = {in("qkv", qkv), out("out", wide),
                 out("lse", {c.batch, c.heads, c.length}, Kind::stat)};
    if (c.documents) {
        vector<double> starts;
        for (i64 i = 0; i < c.batch * c.length; ++i) {
            const i64 t = i % c.length;
            starts.push_back(static_cast<double>(t < 70 ? t / 5 * 5 : std::max<i64>(70, t - 66)));
        }
        f.tensors.push_back(integers("doc_start", Kind::i32, starts));
        f.tensors.back().shape = {c.batch, c.length};
    }
    if (c.alibi) {
        f.tensors.push_back(in("slopes", {c.heads}, 0.05));
        f.tensors.back().kind = Kind::stat;
    }
    if (c.p > 0) f.tensors.push_back(sample_ids(c.batch));
    const auto dropout = [p = c.p](const Views& v) {
        Dropout d = dropout_of(p, v, 1);
        d.first_head = 2;
        return d;
    };
    f.call = [=](Context& context, const Views& v) {
        attention_forward(context, {v["qkv"], v["out"], v["lse"], c.heads, c.groups, c.width, scale,
                                    v["doc_start"], v["slopes"], dropout(v)});
    };
    f.formula = [c](const Values& v) { return attention_formula(c, v); };
    OpCase b;
    b.name = "attention_backward " + shape;
    b.bound = 2e-5;
    b.forward = std::make_shared<OpCase>(f);
    b.tensors = f.tensors;
    b.tensors[1] = in("out", wide);
    b.tensors[2] = in("lse", {c.batch, c.heads, c.length});
    b.tensors[2].kind = Kind::stat;
    b.tensors.push_back(in("dout", wide));
    b.tensors.push_back(out("dqkv", qkv));
    b.upstream = {{"out", "dout"}};
    b.gradients = {{"qkv", "dqkv"}};
    b.call = [=](Context& context, const Views& v) {
        attention_backward(context,
                           {v["dout"], v["qkv"], v["out"], v["lse"], v["dqkv"], c.heads, c.groups,
                            c.width, scale, v["doc_start"], v["slopes"], dropout(v)});
    };
    list.push_back(f);
    list.push_back(b);
}

}  // namespace lm::test
