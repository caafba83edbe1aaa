// SPDX-License-Identifier: Apache-2.0
#include "cost/layout_search.hpp"

#include <algorithm>
#include <tuple>

#include "cost/memory.hpp"
#include "cost/nccl.hpp"

namespace lm::cost {
namespace {

std::vector<i64> divisors(i64 n, i64 most) {
    std::vector<i64> all;
    for (i64 d = 1; d <= std::min(n, most); ++d) {
        if (n % d == 0) all.push_back(d);
    }
    return all;
}

bool tensor_ranks_fit(const LayoutQuery& query, i64 tp) {
    const spec::ModelConfig& model = query.model;
    return query.n_gpus % tp == 0 && query.gpu.n_gpus % tp == 0 && model.n_heads % tp == 0 &&
           model.n_groups % tp == 0 && model.ffn_hidden % tp == 0 &&
           query.parallel.pad_vocab_to % tp == 0;
}

// Returns true when all stages have the same number of layers, where the embedding and the head may
// count as a layer each.
bool stages_are_alike(const LayoutQuery& query, i64 pp) {
    const spec::ParallelConfig& parallel = query.parallel;
    if (parallel.first_stage_layers > 0 || parallel.last_stage_layers > 0) return false;
    return spec::counted_layers(query.model, parallel) % pp == 0;
}

bool stages_fit(const LayoutQuery& query, i64 pp) {
    if (query.pp) return pp == *query.pp && pp <= query.model.n_layers;
    return pp <= query.model.n_layers && (pp == 1 || stages_are_alike(query, pp));
}

i64 bytes_of(const LayoutQuery& query, const Layout& layout) {
    const StepShape step{.micro_batch = layout.micro_batch,
                         .seq_length = query.model.seq_length,
                         .n_micro_batches = layout.n_micro_batches};
    const Processor processor{1, true, query.attention};
    i64 largest = 0;
    for (i64 stage = 0; stage < layout.parallel.pp; ++stage) {
        // Skips the stages between the second and the last: they need no more memory than the
        // second, because they have the same layers and fewer micro-batches in flight.
        const bool is_second_again = stage > 1 && stage < layout.parallel.pp - 1 &&
                                     query.parallel.balance != spec::PipelineBalance::parameters &&
                                     stages_are_alike(query, layout.parallel.pp);
        if (is_second_again) continue;
        // All sizes divide evenly, so all tensor ranks need the same memory.
        const MemoryPlan plan =
            plan_memory(query.model, layout.parallel, step, query.precision, processor, 0, stage);
        const i64 nccl =
            nccl_bytes(layout.parallel, stage, query.overlaps, !query.model.untied_head);
        largest = std::max(largest, plan.total() + nccl);
    }
    return largest + query.allowance_bytes;
}

void try_layout(const LayoutQuery& query, Layout layout, LayoutSearch& search) {
    const bool equal_rows = layout.micro_batch * query.model.seq_length % layout.parallel.tp == 0;
    if (layout.parallel.sequence_parallel && !equal_rows) return;
    ++search.n_tried;
    layout.bytes = bytes_of(query, layout);
    if (!search.smallest || layout.bytes < search.smallest->bytes) search.smallest = layout;
    if (layout.bytes > query.memory_bytes) return;
    layout.time = step_time(query.model, layout.parallel,
                            {layout.micro_batch, layout.n_micro_batches, query.model.seq_length,
                             size_of(query.precision.weights)},
                            query.gpu);
    search.fitting.push_back(std::move(layout));
}

// Tries every micro-batch size and recomputation of a TP and PP.
void try_grid(const LayoutQuery& query, i64 tp, i64 pp, LayoutSearch& search) {
    spec::ParallelConfig parallel = query.parallel;
    parallel.tp = tp;
    parallel.pp = pp;
    parallel.dp = query.n_gpus / (tp * pp);
    parallel.sequence_parallel = query.parallel.sequence_parallel && tp > 1;
    if (query.batch % parallel.dp != 0) return;
    const i64 share = query.batch / parallel.dp;
    for (const i64 micro_batch : divisors(share, query.micro_batch.value_or(max_micro_batch))) {
        if (query.micro_batch && micro_batch != *query.micro_batch) continue;
        for (const spec::Recompute& recompute : query.recomputes) {
            parallel.recompute = recompute;
            try_layout(query, {parallel, micro_batch, share / micro_batch, 0, {}}, search);
        }
    }
}

}  // namespace

LayoutSearch search_layouts(const LayoutQuery& query) {
    LayoutSearch search;
    for (const i64 tp : divisors(query.gpu.n_gpus, query.gpu.n_gpus)) {
        if ((query.tp && tp != *query.tp) || !tensor_ranks_fit(query, tp)) continue;
        for (const i64 pp : divisors(query.n_gpus / tp, query.model.n_layers)) {
            if (stages_fit(query, pp)) try_grid(query, tp, pp, search);
        }
    }
    const auto key = [](const Layout& layout) {
        return std::tuple(layout.time.total(), layout.parallel.recompute.granularity, layout.bytes);
    };
    std::ranges::stable_sort(search.fitting, {}, key);
    return search;
}

}  // namespace lm::cost
