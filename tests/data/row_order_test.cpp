// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/row_order.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/rng.hpp"
#include "counting_source.hpp"
#include "data/sampling/batch.hpp"
#include "support/catch.hpp"

using lm::i32;
using lm::i64;
using lm::data::Batch;
using lm::data::BatchOptions;
using lm::data::Counting;

namespace {

std::vector<i32> order_of(const std::vector<i32>& ids, i64 n_ids) {
    std::vector<i32> order(ids.size());
    lm::data::order_rows(ids, n_ids, order);
    return order;
}

std::vector<i32> stable_sort_of(const std::vector<i32>& ids) {
    std::vector<i32> order(ids.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](i32 row) { return ids[static_cast<size_t>(row)]; });
    return order;
}

}  // namespace

TEST_CASE("rows of equal ids are adjacent and ascending") {
    CHECK(order_of({}, 5).empty());
    CHECK(order_of({3, 1, 3, 0, 1, 1}, 4) == std::vector<i32>{3, 1, 4, 5, 0, 2});
    std::vector<i32> ids(2000);
    for (size_t i = 0; i < ids.size(); ++i) {
        const double u = lm::uniform(3, i);
        ids[i] = static_cast<i32>(u * u * 300);
    }
    CHECK(order_of(ids, 300) == stable_sort_of(ids));
}

TEST_CASE("ids outside of the vocabulary are last") {
    CHECK(order_of({2, -1, 0, 7, 1, 3}, 3) == std::vector<i32>{2, 4, 0, 1, 3, 5});
}

TEST_CASE("a batch has the order of its tokens and of its own positions") {
    const Counting source(6, lm::data::endless);
    BatchOptions options{.micro_batch = 2, .eod_id = 102, .n_ids = 200};
    Batch batch(6, options);
    lm::data::fill_batch(source, options, 0, batch);
    CHECK(batch.token_order == stable_sort_of(batch.tokens));
    CHECK(batch.position_order.empty());

    options.reset_position_ids = true;
    Batch full(6, options);
    CHECK(full.position_order.size() == 12);
    lm::data::fill_batch(source, options, 5, full);
    CHECK(full.token_order == stable_sort_of(full.tokens));
    CHECK(full.position_order == stable_sort_of(full.positions));
    Batch cut;
    for (const i64 length : {2, 6, 4}) {
        lm::data::truncate(full, length, cut);
        CHECK(cut.token_order == stable_sort_of(cut.tokens));
        CHECK(cut.position_order == stable_sort_of(cut.positions));
    }
}
