// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

namespace {

// Parts of n parameters with and without decay. Their states are packed; some parts are followed by
// a gap of 3 parameters, which the operation must not change.
vector<AdamWPart> adamw_parts(i64 n, i64 n_parts) {
    vector<AdamWPart> parts;
    i64 state = 0;
    for (i64 i = 0; i < n_parts; ++i) {
        const i64 begin = i * n / n_parts;
        const i64 gap = i % 3 == 1 && n > 3 * n_parts ? 3 : 0;
        const i64 size = (i + 1) * n / n_parts - begin - gap;
        parts.push_back({begin, state, size, i % 2 == 0});
        state += size;
    }
    return parts;
}

}  // namespace

void add_adamw(OpList& list, i64 n, i64 n_parts, bool weight, i64 step) {
    OpCase c;
    c.name = fmt::format("adamw n={} parts={} weight={} step={}", n, n_parts, weight, step);
    const vector<AdamWPart> parts = adamw_parts(n, n_parts);
    const i64 n_states = parts.back().state_begin + parts.back().size;
    Tensor second = updated("v", {n_states});
    for (double& value : second.values) value = value * value;
    const Tensor grad = stat_in("grad", {n});
    c.tensors = {updated("master", {weight ? n_states : n}), grad, updated("m", {n_states}),
                 second};
    if (weight) c.tensors.push_back(updated("weight", {n}, Kind::compute));
    c.call = [=](Context& context, const Views& v) {
        adamw(context, {.master = v["master"],
                        .weight = v["weight"],
                        .grad = v["grad"],
                        .m = v["m"],
                        .v = v["v"],
                        .parts = parts,
                        .lr = 1e-2,
                        .config = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
                        .step = step,
                        .grad_scale = 0.5});
    };
    c.formula = [=](const Values& v) {
        Values r = v;
        r.erase("grad");
        const double t = static_cast<double>(step);
        for (const AdamWPart& part : parts) {
            for (i64 k = 0; k < part.size; ++k) {
                const size_t param = at(part.param_begin + k);
                const size_t state = at(part.state_begin + k);
                double& m = r["m"][state];
                double& second_moment = r["v"][state];
                double& master = r["master"][weight ? state : param];
                const double g = 0.5 * v.at("grad")[param];
                m += 0.1 * (g - m);
                second_moment += 0.05 * (g * g - second_moment);
                const double m_hat = m / (1 - std::pow(0.9, t));
                const double v_hat = second_moment / (1 - std::pow(0.95, t));
                if (part.decay) master *= 1 - 1e-2 * 0.1;
                master -= 1e-2 * m_hat / (std::sqrt(v_hat) + 1e-8);
                if (weight) r["weight"][param] = master;
            }
        }
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

namespace {

// The sum of the hashes by the definition in the comment of device::Fingerprint, without
// lm::element_hash().
u64 hashes(const vector<double>& words, i64 first_index, bool halves) {
    u64 sum = 0;
    u64 index = static_cast<u64>(first_index);
    const auto add = [&](u64 bits) {
        u64 x = index++ * 11400714819323198485ULL ^ bits * 14029467366897019727ULL;
        x = (x ^ x >> 32) * 13787848793156543929ULL;
        sum += x ^ x >> 29;
    };
    for (const double word : words) {
        const auto bits = static_cast<u32>(static_cast<i32>(word));
        if (!halves) add(bits);
        if (halves) add(bits & 0xffff);
        if (halves) add(bits >> 16);
    }
    return sum;
}

}  // namespace

void add_fingerprint(OpList& list, i64 n) {
    for (const bool halves : {false, true}) {
        const i64 first = halves ? 5 : (i64{1} << 40) + 3;
        OpCase c{fmt::format("fingerprint n={} {}", n, halves ? "16 bits" : "32 bits"),
                 {random_integers("x", n, -(i64{1} << 31), (i64{1} << 31) - 1),
                  updated("out", {1}, Kind::i64)},
                 [=](Context& context, const Views& v) {
                     View x = v["x"];
                     if (halves) x = {x.data, DType::bf16, {2 * x.numel()}};
                     fingerprint(context, {x, first, v["out"]});
                 }};
        c.bound = 1e-15;
        c.formula = [=](const Values& v) {
            const auto before = static_cast<i64>(v.at("out")[0]);
            const u64 sum = static_cast<u64>(before) + hashes(v.at("x"), first, halves);
            return Values{{"out", {static_cast<double>(static_cast<i64>(sum))}}};
        };
        list.push_back(c);
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
