// SPDX-License-Identifier: Apache-2.0
// The list of cases: every operation in shapes that no block, vector or tile divides, and with
// every option on and off.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>

#include "base/rng.hpp"
#include "cpu/activation.hpp"
#include "device/dropout.hpp"
#include "op_case.hpp"

namespace lm::test {
namespace {

using namespace device;
using std::vector;

u64 next_key = 1;

vector<double> random_values(i64 n, double scale = 1.0) {
    const u64 key = next_key++;
    vector<double> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<double>(static_cast<float>(normal(key, i) * scale));
    }
    return values;
}

Tensor in(const std::string& name, const Shape& shape, double scale = 1.0) {
    return {name, Kind::compute, Role::input, shape, random_values(shape.numel(), scale)};
}
Tensor out(const std::string& name, const Shape& shape, Kind kind = Kind::compute) {
    return {name, kind, Role::output, shape, {}};
}
Tensor updated(const std::string& name, const Shape& shape, Kind kind = Kind::stat) {
    return {name, kind, Role::updated, shape, random_values(shape.numel())};
}
Tensor integers(const std::string& name, Kind kind, const vector<double>& values) {
    return {name, kind, Role::input, {static_cast<i64>(values.size())}, values};
}
Tensor random_integers(const std::string& name, i64 n, i64 begin, i64 end) {
    const u64 key = next_key++;
    vector<double> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = std::floor(static_cast<double>(begin) +
                               uniform(key, i) * static_cast<double>(end - begin));
    }
    return integers(name, Kind::i32, values);
}

constexpr u64 big_sample = (u64{1} << 33) + 5;  // a sample index beyond 32 bits

Tensor sample_ids(i64 batch) {
    vector<double> values(static_cast<size_t>(batch));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(big_sample + 7 * i);
    return integers("sample_ids", Kind::i64, values);
}

Dropout dropout_of(double p, const Views& v, i32 site) {
    Dropout d;
    d.p = p;
    d.seed = 1234;
    d.layer = 3;
    d.site = site;
    d.sample_ids = p > 0 ? v["sample_ids"] : View{};
    return d;
}

double dropout_factor(double p, i32 site, double sample, i64 element) {
    if (p == 0) return 1.0;
    return DropoutMask(p, 1234, 3, site).factor(static_cast<i64>(sample), element);
}

size_t at(i64 i) {
    return static_cast<size_t>(i);
}

// ---- embedding ---------------------------------------------------------------------------------

void add_embedding(vector<OpCase>& list, i64 n, i64 vocab, i64 width, bool positions, i64 start) {
    OpCase f;
    f.name = fmt::format("embedding_forward n={} V={} C={} positions={} start={}", n, vocab, width,
                         positions, start);
    f.tensors = {random_integers("tokens", n, 0, 2 * vocab), in("table", {vocab, width}),
                 out("out", {n, width})};
    if (positions) {
        f.tensors.push_back(random_integers("positions", n, 0, 9));
        f.tensors.push_back(in("position_table", {9, width}));
    }
    f.call = [start](Context& context, const Views& v) {
        embedding_forward(context, {v["tokens"], v["table"], start, v["positions"],
                                    v["position_table"], v["out"]});
    };
    f.formula = [=](const Values& v) {
        vector<double> result(at(n * width), 0.0);
        for (i64 i = 0; i < n * width; ++i) {
            const i64 row = static_cast<i64>(v.at("tokens")[at(i / width)]) - start;
            if (row >= 0 && row < vocab) result[at(i)] = v.at("table")[at(row * width + i % width)];
            if (!positions) continue;
            const auto place = static_cast<i64>(v.at("positions")[at(i / width)]);
            result[at(i)] += v.at("position_table")[at(place * width + i % width)];
        }
        return Values{{"out", result}};
    };
    OpCase b;
    b.name = fmt::format("embedding_backward n={} V={} C={} positions={} start={}", n, vocab, width,
                         positions, start);
    b.forward = std::make_shared<OpCase>(f);
    b.tensors = {f.tensor("tokens"), in("dout", {n, width}), updated("dtable", {vocab, width})};
    b.gradients = {{"table", "dtable"}};
    b.upstream = {{"out", "dout"}};
    if (positions) {
        b.tensors.push_back(f.tensor("positions"));
        b.tensors.push_back(updated("dposition_table", {9, width}));
        b.gradients.emplace_back("position_table", "dposition_table");
    }
    b.call = [start](Context& context, const Views& v) {
        embedding_backward(context, {v["tokens"], v["dout"], v["dtable"], start, v["positions"],
                                     v["dposition_table"]});
    };
    list.push_back(f);
    list.push_back(b);
}

// ---- linear ------------------------------------------------------------------------------------

void add_linear(vector<OpCase>& list, i64 n, i64 m, i64 k, bool bias, Activation activation) {
    const bool active = activation != Activation::none;
    const std::string shape = fmt::format("n={} m={} k={} bias={} activation={}", n, m, k, bias,
                                          static_cast<int>(activation));
    OpCase f;
    f.name = "linear_forward " + shape;
    const double scale = 1.0 / std::sqrt(static_cast<double>(k));
    f.tensors = {in("x", {n, k}), in("w", {m, k}, 2 * scale), out("y", {n, m})};
    if (bias) f.tensors.push_back(in("bias", {m}));
    if (active) f.tensors.push_back(out("pre", {n, m}));
    f.call = [activation](Context& context, const Views& v) {
        linear_forward(context, {v["x"], v["w"], v["bias"], v["y"], activation, v["pre"]});
    };
    f.formula = [=](const Values& v) {
        vector<double> pre(at(n * m), 0.0);
        for (i64 j = 0; j < k; ++j) {
            for (i64 i = 0; i < n * m; ++i) {
                pre[at(i)] += v.at("x")[at(i / m * k + j)] * v.at("w")[at(i % m * k + j)];
            }
        }
        for (i64 i = 0; bias && i < n * m; ++i) pre[at(i)] += v.at("bias")[at(i % m)];
        vector<double> y(pre);
        for (double& value : y) value = cpu::activation_value(activation, value);
        return active ? Values{{"y", y}, {"pre", pre}} : Values{{"y", y}};
    };
    list.push_back(f);
    if (active) list.push_back(activation_case(n, m, activation));
    // Gradients by w and bias, of the product alone.
    for (const bool accumulate : {false, true}) {
        if (active) continue;
        OpCase w;
        w.name = fmt::format("linear_backward_weight {} accumulate={}", shape, accumulate);
        w.forward = std::make_shared<OpCase>(f);
        const auto target = [accumulate](const std::string& name, const Shape& s) {
            return accumulate ? updated(name, s) : out(name, s, Kind::stat);
        };
        w.tensors = {in("dy", {n, m}), f.tensor("x"), target("dw", {m, k})};
        if (bias) w.tensors.push_back(target("dbias", {m}));
        w.call = [accumulate](Context& context, const Views& v) {
            linear_backward_weight(context, {v["dy"], v["x"], v["dw"], v["dbias"], accumulate});
        };
        w.upstream = {{"y", "dy"}};
        w.gradients = {{"w", "dw"}};
        if (bias) w.gradients.emplace_back("bias", "dbias");
        list.push_back(w);
    }
    // Gradient by the input x = activation(pre) of the layer, through that activation: the forward
    // case here is activation, then product.
    OpCase b;
    b.name = "linear_backward_input " + shape;
    b.tensors = {in("dy", {n, m}), f.tensor("w"), out("dx", {n, k})};
    if (active) b.tensors.push_back(in("pre_activation", {n, k}));
    b.call = [activation](Context& context, const Views& v) {
        linear_backward_input(context, {v["dy"], v["w"], v["dx"], activation, v["pre_activation"]});
    };
    b.formula = [=](const Values& v) {
        vector<double> dx(at(n * k), 0.0);
        for (i64 j = 0; j < m; ++j) {
            for (i64 i = 0; i < n * k; ++i) {
                dx[at(i)] += v.at("dy")[at(i / k * m + j)] * v.at("w")[at(j * k + i % k)];
            }
        }
        for (i64 i = 0; active && i < n * k; ++i) {
            const double x = v.at("pre_activation")[at(i)];
            constexpr double h = 1e-5;
            dx[at(i)] *= (cpu::activation_value(activation, x + h) -
                          cpu::activation_value(activation, x - h)) /
                         (2 * h);
        }
        return Values{{"dx", dx}};
    };
    if (!active) {
        b.forward = std::make_shared<OpCase>(f);
        b.upstream = {{"y", "dy"}};
        b.gradients = {{"x", "dx"}};
    }
    list.push_back(b);
}

// ---- gated activations
// ---------------------------------------------------------------------------

void add_gated(vector<OpCase>& list, i64 n, i64 width, Gate gate) {
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
            const double x = row[i % width];
            const double sigmoid = 0.5 * (1 + std::tanh(x / 2));
            const double normal_cdf = 0.5 * std::erfc(-x / std::sqrt(2.0));
            y[at(i)] = x * (gate == Gate::swiglu ? sigmoid : normal_cdf) * row[width + i % width];
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

// ---- rotary
// --------------------------------------------------------------------------------------

// Complex numbers: each pair times exp(+-i t).
void add_rotary(vector<OpCase>& list, i64 batch, i64 length, i64 heads, i64 width, i64 rest,
                bool inverse) {
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

// ---- residual + norm ---------------------------------------------------------------------------

struct NormCase {
    i64 batch, length, width;
    Norm norm = Norm::layer_norm;
    bool branch = true, residual = true, sum = true, y = true, bias = true;
    double p = 0;
    i64 first_row = 0, n_rows = 0;  // of the samples' rows; 0: all
    i64 rows() const { return n_rows > 0 ? n_rows : batch * length; }
    Dropout dropout(const Views& v) const {
        Dropout d = dropout_of(p, v, 2);
        if (n_rows > 0) d.first_row = first_row;
        if (n_rows > 0) d.sample_rows = length;
        return d;
    }
};

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
            y[at(i)] = (sum[at(i)] - mean[at(row)]) * rstd[at(row)] * v.at("weight")[column];
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

// Without a norm: what joins a stage's output.
void add_join_backward(vector<OpCase>& list, const NormCase& c, const OpCase& forward) {
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
        residual_norm_backward(context, args);
    };
    list.push_back(b);
}

void add_norm(vector<OpCase>& list, const NormCase& c) {
    const i64 n = c.rows();
    const Shape full{n, c.width};
    const bool centred = c.norm == Norm::layer_norm;
    const std::string shape = fmt::format(
        "B={} T={} C={} rms={} branch={} residual={} sum={} y={} bias={} p={} rows={}+{}", c.batch,
        c.length, c.width, !centred, c.branch, c.residual, c.sum, c.y, c.bias, c.p, c.first_row, n);
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
                      v["bias"], v["y"], v["mean"], v["rstd"]});
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
    b.tensors = {
        in("dy", full),      in("sum", full),   in("weight", {c.width}),      in("rstd", {n}),
        in("dsum_in", full), out("dsum", full), updated("dweight", {c.width})};
    b.tensors[3].kind = Kind::stat;
    b.upstream = {{"y", "dy"}, {"sum", "dsum_in"}};
    b.gradients = {{"weight", "dweight"}};
    if (centred) {
        b.tensors.push_back(in("mean", {n}));
        b.tensors.back().kind = Kind::stat;
    }
    if (c.p > 0) b.tensors.push_back(f.tensor("sample_ids"));
    if (c.residual) b.gradients.emplace_back("residual", "dsum");
    if (c.branch) {
        b.tensors.push_back(out("dbranch", full));
        b.gradients.emplace_back("branch", "dbranch");
    }
    if (c.bias) {
        b.tensors.push_back(updated("dbias", {c.width}));
        b.gradients.emplace_back("bias", "dbias");
    }
    b.call = [c](Context& context, const Views& v) {
        residual_norm_backward(
            context, {c.norm, v["dy"], v["sum"], v["weight"], v["mean"], v["rstd"], v["dsum_in"],
                      v["dsum"], c.dropout(v), v["dbranch"], v["dweight"], v["dbias"]});
    };
    list.push_back(b);
}

// ---- attention ---------------------------------------------------------------------------------

struct AttentionCase {
    i64 batch, length, heads, groups, width;
    bool documents = false, alibi = false;
    double p = 0;
};

// Softmax of a dense matrix of scores, then a product.
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

void add_attention(vector<OpCase>& list, const AttentionCase& c) {
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

// ---- cross-entropy -----------------------------------------------------------------------------

void add_cross_entropy(vector<OpCase>& list, i64 n, i64 vocab, i64 valid, i64 start, double scale) {
    const std::string shape =
        fmt::format("n={} V={} valid={} start={} scale={}", n, vocab, valid, start, scale);
    Tensor logits = in("logits", {n, vocab}, scale);
    const Tensor targets = random_integers("targets", n, start - 3, start + vocab + 3);
    const auto stats = [=](const Values& v) {
        Values result;
        for (i64 row = 0; row < n; ++row) {
            const double* const x = v.at("logits").data() + row * vocab;
            const double most = *std::max_element(x, x + valid);
            double sum = 0;
            for (i64 i = 0; i < valid; ++i) sum += std::exp(x[i] - most);
            const i64 target = static_cast<i64>(v.at("targets")[at(row)]) - start;
            const bool held = target >= 0 && target < valid;
            result["row_max"].push_back(most);
            result["row_sum"].push_back(sum);
            result["target_logit"].push_back(held ? x[target] : 0.0);
        }
        return result;
    };
    OpCase f;
    f.name = "cross_entropy_stats " + shape;
    f.tensors = {logits, targets, out("row_max", {n}, Kind::stat), out("row_sum", {n}, Kind::stat),
                 out("target_logit", {n}, Kind::stat)};
    f.call = [=](Context& context, const Views& v) {
        cross_entropy_stats(context, {v["logits"], v["targets"], start, valid, v["row_max"],
                                      v["row_sum"], v["target_logit"]});
    };
    f.formula = stats;
    list.push_back(f);
    // Rows whose largest logit is here, elsewhere, and of a share without a valid column.
    Tensor local_max = in("local_max", {n});
    Tensor row_sum = updated("row_sum", {n});
    Tensor row_max = local_max;
    row_max.name = "row_max";
    local_max.kind = row_max.kind = row_sum.kind = Kind::stat;
    for (size_t i = 0; i < at(n); ++i) {
        row_max.values[i] += static_cast<double>(i % 3);
        if (i % 4 != 3) continue;
        local_max.values[i] = -std::numeric_limits<double>::infinity();
        row_sum.values[i] = 0;
    }
    OpCase rescale;
    rescale.name = "cross_entropy_rescale " + shape;
    rescale.tensors = {local_max, row_max, row_sum};
    rescale.call = [](Context& context, const Views& v) {
        cross_entropy_rescale(context, {v["local_max"], v["row_max"], v["row_sum"]});
    };
    rescale.formula = [n](const Values& v) {
        vector<double> sums = v.at("row_sum");
        for (size_t i = 0; i < at(n); ++i) {
            sums[i] *= std::exp(v.at("local_max")[i]) / std::exp(v.at("row_max")[i]);
        }
        return Values{{"row_sum", sums}};
    };
    list.push_back(rescale);
    OpCase loss;
    loss.name = "cross_entropy_loss " + shape;
    const auto stat = [n](const std::string& name) {
        Tensor tensor = in(name, {n});
        tensor.kind = Kind::stat;
        for (double& value : tensor.values) value = std::abs(value) + 0.1;
        return tensor;
    };
    loss.tensors = {stat("row_max"), stat("row_sum"), stat("target_logit"),
                    out("losses", {n}, Kind::stat)};
    loss.call = [](Context& context, const Views& v) {
        cross_entropy_loss(context, {v["row_max"], v["row_sum"], v["target_logit"], v["losses"]});
    };
    loss.formula = [n](const Values& v) {
        vector<double> losses(at(n));
        for (size_t i = 0; i < losses.size(); ++i) {
            losses[i] = std::log(v.at("row_sum")[i] *
                                 std::exp(v.at("row_max")[i] - v.at("target_logit")[i]));
        }
        return Values{{"losses", losses}};
    };
    list.push_back(loss);
    OpCase b;
    b.name = "cross_entropy_backward " + shape;
    b.forward = std::make_shared<OpCase>(f);
    logits.role = Role::updated;
    b.tensors = {logits, targets, stat("row_max"), stat("row_sum"), in("weight", {n})};
    b.tensors.back().kind = Kind::stat;
    b.call = [=](Context& context, const Views& v) {
        cross_entropy_backward(context, {v["logits"], v["targets"], start, valid, v["row_max"],
                                         v["row_sum"], v["weight"], 0.25});
    };
    // The derivative of 0.25 * weight * (log(sum exp(logits)) - logits[target]).
    b.formula = [=](const Values& v) {
        vector<double> gradient(at(n * vocab), 0.0);
        for (i64 row = 0; row < n; ++row) {
            const double* const x = v.at("logits").data() + row * vocab;
            double sum = 0;
            for (i64 i = 0; i < valid; ++i) sum += std::exp(x[i]);
            const i64 target = static_cast<i64>(v.at("targets")[at(row)]) - start;
            for (i64 i = 0; i < valid; ++i) {
                const double hit = i == target ? 1.0 : 0.0;
                gradient[at(row * vocab + i)] =
                    0.25 * v.at("weight")[at(row)] * (std::exp(x[i]) / sum - hit);
            }
        }
        return Values{{"logits", gradient}};
    };
    list.push_back(b);
}

// ---- flat --------------------------------------------------------------------------------------

void add_adamw(vector<OpCase>& list, i64 n, bool weight, i64 step) {
    OpCase c;
    c.name = fmt::format("adamw n={} weight={} step={}", n, weight, step);
    Tensor second = updated("v", {n});
    for (double& value : second.values) value = value * value;
    Tensor grad = in("grad", {n});
    grad.kind = Kind::stat;
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

void add_sums(vector<OpCase>& list, i64 n, bool accumulate) {
    Tensor x = in("x", {n});
    x.kind = Kind::stat;
    for (size_t i = 0; i < x.values.size(); i += 3) x.values[i] = 0;
    Tensor weight = in("weight", {n});
    weight.kind = Kind::stat;
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

void add_simple(vector<OpCase>& list, i64 n) {
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

}  // namespace

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
        for (double& value : y) value = cpu::activation_value(activation, value);
        return Values{{"y", y}};
    };
    return c;
}

vector<OpCase> op_cases() {
    next_key = 1;
    vector<OpCase> list;
    add_embedding(list, 1, 3, 1, false, 0);
    add_embedding(list, 37, 11, 5, true, 4);
    add_embedding(list, 70, 13, 131, true, 0);
    for (const Activation activation :
         {Activation::none, Activation::gelu_tanh, Activation::gelu_erf}) {
        for (const bool bias : {false, true}) {
            add_linear(list, 1, 1, 1, bias, activation);
            add_linear(list, 3, 5, 7, bias, activation);
            add_linear(list, 67, 37, 29, bias, activation);
        }
        add_linear(list, 261, 391, 40, true, activation);  // more than one tile each way
    }
    add_linear(list, 1030, 8, 16, true, Activation::none);  // many blocks of rows
    for (const Gate gate : {Gate::swiglu, Gate::geglu}) {
        add_gated(list, 1, 1, gate);
        add_gated(list, 5, 37, gate);
        add_gated(list, 19, 1100, gate);
        add_gated(list, 3, 2312, gate);
    }
    for (const bool inverse : {false, true}) {
        add_rotary(list, 1, 1, 1, 2, 0, inverse);
        add_rotary(list, 2, 21, 3, 10, 7, inverse);
        add_rotary(list, 1, 33, 2, 128, 128, inverse);
    }
    for (const Norm norm : {Norm::layer_norm, Norm::rms_norm}) {
        for (const double p : {0.0, 0.3}) {
            add_norm(list, {.batch = 1, .length = 1, .width = 1, .norm = norm, .p = p});
            add_norm(list, {.batch = 3, .length = 5, .width = 5, .norm = norm, .p = p});
            add_norm(list, {.batch = 2, .length = 65, .width = 67, .norm = norm, .p = p});
            add_norm(list, {.batch = 1, .length = 3, .width = 768, .norm = norm, .p = p});
            add_norm(list, {.batch = 3, .length = 37, .width = 64, .norm = norm, .p = p});
        }
        // Rows of several steps of a block, and longer than what it keeps.
        for (const i64 width : {2304, 4104, 8200, 50000}) {
            add_norm(list, {.batch = 1, .length = 3, .width = width, .norm = norm, .p = 0.1});
        }
        add_norm(list, {.batch = 1, .length = 7, .width = 9, .norm = norm, .bias = false});
        add_norm(list, {.batch = 1, .length = 7, .width = 9, .norm = norm, .branch = false});
        add_norm(list, {.batch = 1, .length = 7, .width = 9, .norm = norm, .residual = false});
        add_norm(list, {.batch = 1, .length = 7, .width = 9, .norm = norm, .sum = false, .p = 0.5});
    }
    for (const double p : {0.0, 0.5}) {
        add_norm(list, {.batch = 2, .length = 7, .width = 9, .y = false, .p = p});
        add_norm(list, {.batch = 2, .length = 40, .width = 67, .y = false, .p = p});
    }
    // Rows of a part of the samples.
    for (const bool y : {false, true}) {
        add_norm(
            list,
            {.batch = 3, .length = 5, .width = 9, .y = y, .p = 0.4, .first_row = 7, .n_rows = 6});
    }
    for (const double p : {0.0, 0.2}) {
        add_attention(list, {1, 1, 1, 1, 1, false, false, p});
        add_attention(list, {2, 7, 3, 1, 5, false, true, p});
        add_attention(list, {1, 64, 2, 2, 64, false, false, p});
        add_attention(list, {1, 65, 4, 2, 80, true, false, p});
        add_attention(list, {2, 131, 2, 1, 16, true, true, p});
        add_attention(list, {1, 193, 1, 1, 128, false, true, p});
    }
    add_attention(list, {1, 200, 2, 2, 64, true, false, 0.1});
    // Narrower and wider heads than most, odd numbers of heads, queries that share their keys.
    add_attention(list, {1, 150, 6, 2, 32, true, true, 0.2});
    add_attention(list, {1, 97, 2, 1, 256, true, true, 0.1});
    add_attention(list, {2, 72, 3, 3, 256, false, true, 0.0});
    add_attention(list, {1, 129, 5, 1, 96, false, true, 0.0});
    add_cross_entropy(list, 1, 1, 1, 0, 1.0);
    add_cross_entropy(list, 5, 7, 7, 0, 1.0);
    add_cross_entropy(list, 9, 61, 53, 100, 3.0);
    add_cross_entropy(list, 3, 5003, 4999, 0, 10.0);
    for (const i64 n : {1, 67, 70001}) {
        add_adamw(list, n, n == 67, n == 1 ? 1 : 10);
        add_sums(list, n, n == 67);
        add_simple(list, n);
    }
    return list;
}

}  // namespace lm::test
