// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "data/sampling/row_order.hpp"
#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;
using std::vector;

namespace {

// Returns the row numbers sorted by the ids in `index`.
Tensor order_of(const std::string& name, const Tensor& index, i64 n_ids) {
    const vector<i32> ids(index.values.begin(), index.values.end());
    vector<i32> order(ids.size());
    data::order_rows(ids, n_ids, order);
    return integers(name, Kind::i32, {order.begin(), order.end()});
}

}  // namespace

void add_embedding(OpList& list, i64 n, i64 vocab, i64 width, bool positions, i64 start) {
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
    b.tensors = {f.tensor("tokens"), order_of("token_order", f.tensor("tokens"), 2 * vocab),
                 in("dout", {n, width}), updated("dtable", {vocab, width})};
    b.gradients = {{"table", "dtable"}};
    b.upstream = {{"out", "dout"}};
    if (positions) {
        b.tensors.push_back(f.tensor("positions"));
        b.tensors.push_back(order_of("position_order", f.tensor("positions"), 9));
        b.tensors.push_back(updated("dposition_table", {9, width}));
        b.gradients.emplace_back("position_table", "dposition_table");
    }
    b.call = [start](Context& context, const Views& v) {
        embedding_backward(context, {v["tokens"], v["token_order"], v["dout"], v["dtable"], start,
                                     v["positions"], v["position_order"], v["dposition_table"]});
    };
    list.push_back(f);
    list.push_back(b);
}

}  // namespace lm::test
