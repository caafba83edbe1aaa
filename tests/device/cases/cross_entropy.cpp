// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

namespace {

struct CrossEntropyCase {
    i64 n, vocab, valid, start;
    double scale;

    std::string shape() const {
        return fmt::format("n={} V={} valid={} start={} scale={}", n, vocab, valid, start, scale);
    }
    // Returns the target's column on this rank, -1 when another rank has it.
    i64 column(double target) const {
        const i64 i = static_cast<i64>(target) - start;
        return i >= 0 && i < valid ? i : -1;
    }
};

OpCase stats_case(const CrossEntropyCase& c) {
    OpCase f;
    f.name = "cross_entropy_stats " + c.shape();
    f.tensors = {in("logits", {c.n, c.vocab}, c.scale),
                 random_integers("targets", c.n, c.start - 3, c.start + c.vocab + 3),
                 out("row_max", {c.n}, Kind::stat), out("row_sum", {c.n}, Kind::stat),
                 out("target_logit", {c.n}, Kind::stat)};
    f.call = [c](Context& context, const Views& v) {
        cross_entropy_stats(context, {v["logits"], v["targets"], c.start, c.valid, v["row_max"],
                                      v["row_sum"], v["target_logit"]});
    };
    f.formula = [c](const Values& v) {
        Values result;
        for (i64 row = 0; row < c.n; ++row) {
            const double* const x = v.at("logits").data() + row * c.vocab;
            const double most = *std::max_element(x, x + c.valid);
            double sum = 0;
            for (i64 i = 0; i < c.valid; ++i) sum += std::exp(x[i] - most);
            const i64 target = c.column(v.at("targets")[at(row)]);
            result["row_max"].push_back(most);
            result["row_sum"].push_back(sum);
            result["target_logit"].push_back(target < 0 ? 0.0 : x[target]);
        }
        return result;
    };
    return f;
}

// The rows have their largest logit on this rank or on another one, or no valid column on this
// rank.
OpCase rescale_case(const CrossEntropyCase& c) {
    Tensor local_max = stat_in("local_max", {c.n});
    Tensor row_sum = updated("row_sum", {c.n});
    Tensor row_max = local_max;
    row_max.name = "row_max";
    for (size_t i = 0; i < at(c.n); ++i) {
        row_max.values[i] += static_cast<double>(i % 3);
        if (i % 4 != 3) continue;
        local_max.values[i] = -std::numeric_limits<double>::infinity();
        row_sum.values[i] = 0;
    }
    OpCase rescale;
    rescale.name = "cross_entropy_rescale " + c.shape();
    rescale.tensors = {local_max, row_max, row_sum};
    rescale.call = [](Context& context, const Views& v) {
        cross_entropy_rescale(context, {v["local_max"], v["row_max"], v["row_sum"]});
    };
    rescale.formula = [c](const Values& v) {
        vector<double> sums = v.at("row_sum");
        for (size_t i = 0; i < at(c.n); ++i) {
            sums[i] *= std::exp(v.at("local_max")[i]) / std::exp(v.at("row_max")[i]);
        }
        return Values{{"row_sum", sums}};
    };
    return rescale;
}

Tensor positive(const std::string& name, i64 n) {
    Tensor tensor = stat_in(name, {n});
    for (double& value : tensor.values) value = std::abs(value) + 0.1;
    return tensor;
}

OpCase loss_case(const CrossEntropyCase& c) {
    OpCase loss;
    loss.name = "cross_entropy_loss " + c.shape();
    loss.tensors = {positive("row_max", c.n), positive("row_sum", c.n),
                    positive("target_logit", c.n), out("losses", {c.n}, Kind::stat)};
    loss.call = [](Context& context, const Views& v) {
        cross_entropy_loss(context, {v["row_max"], v["row_sum"], v["target_logit"], v["losses"]});
    };
    loss.formula = [c](const Values& v) {
        vector<double> losses(at(c.n));
        for (size_t i = 0; i < losses.size(); ++i) {
            losses[i] = std::log(v.at("row_sum")[i] *
                                 std::exp(v.at("row_max")[i] - v.at("target_logit")[i]));
        }
        return Values{{"losses", losses}};
    };
    return loss;
}

// The derivative of 0.25 * weight * (log(sum exp(logits)) - logits[target]).
OpCase backward_case(const CrossEntropyCase& c, const OpCase& forward) {
    OpCase b;
    b.name = "cross_entropy_backward " + c.shape();
    b.forward = std::make_shared<OpCase>(forward);
    Tensor logits = b.forward->tensor("logits");
    logits.role = Role::updated;
    b.tensors = {logits, b.forward->tensor("targets"), positive("row_max", c.n),
                 positive("row_sum", c.n), stat_in("weight", {c.n})};
    b.call = [c](Context& context, const Views& v) {
        cross_entropy_backward(context, {v["logits"], v["targets"], c.start, c.valid, v["row_max"],
                                         v["row_sum"], v["weight"], 0.25});
    };
    b.formula = [c](const Values& v) {
        vector<double> gradient(at(c.n * c.vocab), 0.0);
        for (i64 row = 0; row < c.n; ++row) {
            const double* const x = v.at("logits").data() + row * c.vocab;
            double sum = 0;
            for (i64 i = 0; i < c.valid; ++i) sum += std::exp(x[i]);
            const i64 target = c.column(v.at("targets")[at(row)]);
            for (i64 i = 0; i < c.valid; ++i) {
                const double hit = i == target ? 1.0 : 0.0;
                gradient[at(row * c.vocab + i)] =
                    0.25 * v.at("weight")[at(row)] * (std::exp(x[i]) / sum - hit);
            }
        }
        return Values{{"logits", gradient}};
    };
    return b;
}

// All columns on one rank: the statistics, the losses, and the gradient over the logits.
OpCase whole_case(const CrossEntropyCase& c, OpCase stats, const OpCase& backward) {
    OpCase whole;
    whole.name = "cross_entropy " + c.shape();
    Tensor logits = stats.tensor("logits");
    logits.role = Role::updated;
    whole.tensors = {logits,
                     random_integers("targets", c.n, -3, c.vocab + 3),
                     stat_in("weight", {c.n}),
                     out("row_max", {c.n}, Kind::stat),
                     out("row_sum", {c.n}, Kind::stat),
                     out("target_logit", {c.n}, Kind::stat),
                     out("losses", {c.n}, Kind::stat)};
    whole.call = [c](Context& context, const Views& v) {
        cross_entropy(context, {v["logits"], v["targets"], c.valid, v["weight"], 0.25, v["row_max"],
                                v["row_sum"], v["target_logit"], v["losses"]});
    };
    whole.formula = [stats, backward](const Values& v) {
        Values result = stats.formula(v);
        for (size_t i = 0; i < result["row_sum"].size(); ++i) {
            result["losses"].push_back(std::log(result["row_sum"][i]) + result["row_max"][i] -
                                       result["target_logit"][i]);
        }
        result["logits"] = backward.formula(v).at("logits");
        return result;
    };
    return whole;
}

}  // namespace

void add_cross_entropy(OpList& list, i64 n, i64 vocab, i64 valid, i64 start, double scale) {
    const CrossEntropyCase c{n, vocab, valid, start, scale};
    const OpCase stats = stats_case(c);
    list.push_back(stats);
    list.push_back(rescale_case(c));
    list.push_back(loss_case(c));
    list.push_back(backward_case(c, stats));
}

void add_whole_cross_entropy(OpList& list, i64 n, i64 vocab, i64 valid, double scale) {
    const CrossEntropyCase c{n, vocab, valid, 0, scale};
    const OpCase stats = stats_case(c);
    list.push_back(whole_case(c, stats, backward_case(c, stats)));
}

}  // namespace lm::test
