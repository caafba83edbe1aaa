// SPDX-License-Identifier: Apache-2.0
#include "cost/layout_search.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "cost/memory.hpp"
#include "cost/nccl.hpp"
#include "gpus.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cost;

namespace {

using Granularity = spec::Recompute::Granularity;

// 8 GPUs in nodes of 4, 8 layers, 8 heads, a batch of 16: TP is 1, 2 or 4.
LayoutQuery query() {
    LayoutQuery query;
    query.model = {
        .n_layers = 8, .hidden = 512, .n_heads = 8, .seq_length = 256, .vocab_size = 1000};
    query.model.resolve();
    query.precision = {DType::bf16};
    query.gpu = shared_hardware("a100");
    query.gpu.gpus_per_node = 4;
    query.n_gpus = 8;
    query.memory_bytes = i64{1} << 40;
    query.batch = 16;
    query.recomputes = {{.granularity = Granularity::none}};
    query.zero_stages = {0};
    query.all_variants = true;
    query.n_wanted = 1000;
    return query;
}

// The values of TP and PP among the layouts.
std::set<std::pair<i64, i64>> grids(const LayoutSearch& search) {
    std::set<std::pair<i64, i64>> all;
    for (const Layout& layout : search.fitting) {
        all.emplace(layout.parallel.tp, layout.parallel.pp);
    }
    return all;
}

}  // namespace

TEST_CASE("TP, PP, DP and micro-batch of every layout divide evenly") {
    const LayoutSearch search = search_layouts(query());
    CHECK(grids(search) ==
          std::set<std::pair<i64, i64>>{
              {1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}});
    CHECK(search.n_tried == static_cast<i64>(search.fitting.size()));
    for (const Layout& layout : search.fitting) {
        CHECK(layout.parallel.tp * layout.parallel.pp * layout.parallel.dp == 8);
        CHECK(layout.micro_batch * layout.n_micro_batches * layout.parallel.dp == 16);
    }
}

TEST_CASE("TP divides the key-value groups and the padded vocabulary") {
    LayoutQuery grouped = query();
    grouped.model.n_groups = 2;
    LayoutQuery padded = query();
    padded.parallel.pad_vocab_to = 1026;
    for (const LayoutQuery& each : {grouped, padded}) {
        for (const auto& [tp, pp] : grids(search_layouts(each))) CHECK(tp <= 2);
    }
}

TEST_CASE("stages need not have the same number of layers") {
    LayoutQuery uneven = query();
    uneven.model.n_layers = 7;
    uneven.pp = 4;
    uneven.balances = {spec::PipelineBalance::layers, spec::PipelineBalance::layers_and_embedding};
    const LayoutSearch search = search_layouts(uneven);
    REQUIRE_FALSE(search.fitting.empty());
    for (const Layout& layout : search.fitting) {
        i64 n_layers = 0;
        for (i64 stage = 0; stage < 4; ++stage) {
            n_layers += stage_layers(uneven.model, layout.parallel, stage);
        }
        CHECK(n_layers == 7);
    }
}

TEST_CASE("one layout for each TP, PP and micro-batch size unless all variants are wanted") {
    LayoutQuery some = query();
    some.zero_stages = {0, 1};
    some.n_chunks = {1, 2};
    some.recomputes.push_back({.granularity = Granularity::full});
    const LayoutSearch all = search_layouts(some);
    CHECK(static_cast<i64>(all.fitting.size()) == all.n_tried);
    some.all_variants = false;
    const LayoutSearch merged = search_layouts(some);
    std::set<std::tuple<i64, i64, i64>> seen;
    for (const Layout& layout : merged.fitting) {
        CHECK(seen.emplace(layout.parallel.tp, layout.parallel.pp, layout.micro_batch).second);
    }
    some.n_wanted = 3;
    const LayoutSearch first = search_layouts(some);
    REQUIRE(first.fitting.size() == 3);
    CHECK(first.fitting[0].time.total() == all.fitting[0].time.total());
}

TEST_CASE("faster layouts that need too much memory are reported") {
    LayoutQuery tight = query();
    const LayoutSearch all = search_layouts(tight);
    i64 least = all.fitting[0].bytes;
    for (const Layout& layout : all.fitting) least = std::min(least, layout.bytes);
    tight.memory_bytes = least;
    const LayoutSearch search = search_layouts(tight);
    REQUIRE_FALSE(search.rejected.empty());
    CHECK(search.rejected.size() <= 3);
    for (const Layout& layout : search.rejected) {
        CHECK(layout.bytes > least);
        CHECK(layout.time.total() <= 1.05 * search.fitting[0].time.total());
    }
}

TEST_CASE("a value that the query gives is the only one tried") {
    LayoutQuery given = query();
    given.tp = 2;
    given.pp = 2;
    given.micro_batch = 4;
    const LayoutSearch search = search_layouts(given);
    REQUIRE(search.fitting.size() == 1);
    CHECK(search.fitting[0].parallel.dp == 2);
    CHECK(search.fitting[0].n_micro_batches == 2);
    given.micro_batch = 3;  // does not divide the 8 samples of a replica
    CHECK(search_layouts(given).n_tried == 0);
    CHECK_FALSE(search_layouts(given).smallest.has_value());
}

TEST_CASE("without a given size no micro-batch is larger than max_micro_batch") {
    LayoutQuery large = query();
    large.batch = 8 * 128;
    large.tp = large.pp = 1;
    i64 most = 0;
    for (const Layout& layout : search_layouts(large).fitting) {
        most = std::max(most, layout.micro_batch);
    }
    CHECK(most == max_micro_batch);
    large.micro_batch = 128;
    CHECK(search_layouts(large).n_tried == 1);
}

TEST_CASE("sequence parallelism needs equal rows, and is off with one tensor rank") {
    LayoutQuery odd = query();
    odd.model.seq_length = 255;
    odd.model.resolve();
    odd.parallel.sequence_parallel = true;
    for (const Layout& layout : search_layouts(odd).fitting) {
        CHECK(layout.parallel.sequence_parallel == (layout.parallel.tp > 1));
        CHECK(layout.micro_batch * 255 % layout.parallel.tp == 0);
    }
}

TEST_CASE("the memory of a layout is that of the stage that needs most") {
    LayoutQuery one = query();
    one.tp = 1;
    one.pp = 4;
    one.micro_batch = 1;
    one.allowance_bytes = 1000;
    const LayoutSearch search = search_layouts(one);
    REQUIRE(search.fitting.size() == 1);
    const Layout& layout = search.fitting[0];
    i64 largest = 0;
    for (i64 stage = 0; stage < 4; ++stage) {
        const MemoryPlan plan = plan_memory(one.model, layout.parallel,
                                            {.micro_batch = 1,
                                             .seq_length = one.model.seq_length,
                                             .n_micro_batches = layout.n_micro_batches},
                                            one.precision, {1, true, one.attention}, 0, stage);
        largest =
            std::max(largest, plan.total() + nccl_bytes(one.model, layout.parallel, stage, {}));
    }
    CHECK(layout.bytes == largest + 1000);
}

TEST_CASE("layouts that need more than the memory are counted but not returned") {
    LayoutQuery tight = query();
    const LayoutSearch all = search_layouts(tight);
    i64 least = all.fitting[0].bytes;
    for (const Layout& layout : all.fitting) least = std::min(least, layout.bytes);
    tight.memory_bytes = least;
    const LayoutSearch search = search_layouts(tight);
    CHECK(search.n_tried == all.n_tried);
    REQUIRE_FALSE(search.fitting.empty());
    CHECK_FALSE(search.smallest.has_value());
    for (const Layout& layout : search.fitting) CHECK(layout.bytes == least);
    tight.memory_bytes -= 1;
    CHECK(search_layouts(tight).fitting.empty());
    CHECK(search_layouts(tight).smallest->bytes == least);
}

TEST_CASE("layouts are sorted by time, then by memory") {
    LayoutQuery all = query();
    all.recomputes = {{.granularity = Granularity::full},
                      {.granularity = Granularity::none},
                      {.granularity = Granularity::selective}};
    const auto key = [](const Layout& layout) {
        return std::tuple(layout.time.total(), layout.bytes);
    };
    const LayoutSearch search = search_layouts(all);
    CHECK(search.n_tried == 3 * search_layouts(query()).n_tried);
    CHECK(std::ranges::is_sorted(search.fitting, {}, key));
}

TEST_CASE("310B on 10,080 GPUs: the fastest layout, with the memory of each of its stages") {
    LayoutQuery large = query();
    large.model = {
        .n_layers = 96, .hidden = 16384, .n_heads = 128, .seq_length = 2048, .vocab_size = 51200};
    large.model.resolve();
    large.gpu = shared_hardware("a100");
    large.n_gpus = 10080;
    large.memory_bytes = large.gpu.memory_bytes;
    large.allowance_bytes = cuda_allowance_bytes;
    large.batch = 10080;
    large.recomputes = {{.granularity = Granularity::none},
                        {.granularity = Granularity::selective},
                        {.granularity = Granularity::full}};
    large.zero_stages = {0, 1};
    large.n_chunks = {1, 2, 4};
    large.balances = {spec::PipelineBalance::layers, spec::PipelineBalance::layers_and_embedding};
    large.all_variants = false;
    large.n_wanted = 10;
    const LayoutSearch search = search_layouts(large);
    REQUIRE(search.fitting.size() == 10);
    const Layout& best = search.fitting[0];
    CHECK(best.parallel.tp == 4);
    CHECK(best.parallel.pp == 24);
    CHECK(best.parallel.n_chunks == 4);
    CHECK(best.parallel.recompute.granularity == Granularity::selective);
    CHECK(best.parallel.zero_stage == 1);
    CHECK(best.micro_batch == 1);
    // The search computes the memory of one stage of each kind. No other stage needs more.
    for (const Layout& layout : search.fitting) {
        const StepShape step{.micro_batch = layout.micro_batch,
                             .seq_length = 2048,
                             .n_micro_batches = layout.n_micro_batches};
        i64 largest = 0;
        for (i64 stage = 0; stage < layout.parallel.pp; ++stage) {
            const MemoryPlan plan = plan_memory(large.model, layout.parallel, step, large.precision,
                                                {1, true, large.attention}, 0, stage);
            largest = std::max(largest,
                               plan.total() + nccl_bytes(large.model, layout.parallel, stage, {}));
        }
        CHECK(layout.bytes == largest + cuda_allowance_bytes);
    }
}
