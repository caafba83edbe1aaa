// SPDX-License-Identifier: Apache-2.0
#include "cost/layout_search.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "base/as_double.hpp"
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
    return query.n_gpus % tp == 0 && query.gpu.gpus_per_node % tp == 0 && model.n_heads % tp == 0 &&
           model.n_groups % tp == 0 && model.ffn_hidden % tp == 0 &&
           query.parallel.pad_vocab_to % tp == 0;
}

// Returns the memory of the rank that needs most. If several stages have equal parts of the model,
// computes only the first one, which has the most micro-batches in flight. TP divides all sizes, so
// all tensor ranks need the same memory.
i64 bytes_of(const LayoutQuery& query, const Layout& layout) {
    const StepShape step{.micro_batch = layout.micro_batch,
                         .seq_length = query.model.seq_length,
                         .n_micro_batches = layout.n_micro_batches};
    const Processor processor{1, true, query.attention};
    std::set<std::tuple<i64, bool, bool>> seen;
    i64 largest = 0;
    for (i64 stage = 0; stage < layout.parallel.pp; ++stage) {
        const i64 n_layers = stage_layers(query.model, layout.parallel, stage);
        if (!seen.emplace(n_layers, stage == 0, stage == layout.parallel.pp - 1).second) continue;
        const MemoryPlan plan =
            plan_memory(query.model, layout.parallel, step, query.precision, processor, 0, stage);
        const i64 nccl =
            nccl_bytes(layout.parallel, stage, query.overlaps, !query.model.untied_head);
        largest = std::max(largest, plan.total() + nccl);
    }
    return largest + query.allowance_bytes;
}

// The search of one query. `elements`: the number of parameters of the largest rank, which depends
// only on TP, PP, chunks and balance.
class Search {
  public:
    explicit Search(const LayoutQuery& query) : query_(query) {}

    LayoutSearch run() {
        for (const i64 tp : divisors(query_.gpu.gpus_per_node, query_.gpu.gpus_per_node)) {
            if ((query_.tp && tp != *query_.tp) || !tensor_ranks_fit(query_, tp)) continue;
            for (const i64 pp : divisors(query_.n_gpus / tp, query_.model.n_layers)) {
                if (!query_.pp || pp == *query_.pp) try_grid(tp, pp);
            }
        }
        found_.n_tried = static_cast<i64>(tried_.size());
        choose();
        return std::move(found_);
    }

  private:
    struct Candidate {
        Layout layout;
        double elements;
    };

    void try_grid(i64 tp, i64 pp) {
        spec::ParallelConfig parallel = query_.parallel;
        parallel.tp = tp;
        parallel.pp = pp;
        parallel.dp = query_.n_gpus / (tp * pp);
        parallel.sequence_parallel = query_.parallel.sequence_parallel && tp > 1;
        if (query_.batch % parallel.dp != 0) return;
        for (const i64 n_chunks : query_.n_chunks) {
            if (n_chunks > 1 && (pp == 1 || query_.model.n_layers % (pp * n_chunks) != 0)) continue;
            for (const spec::PipelineBalance balance : query_.balances) {
                if (pp == 1 && balance != query_.balances[0]) continue;
                parallel.n_chunks = n_chunks;
                parallel.balance = balance;
                try_batches(parallel, largest_rank_parameters(query_.model, parallel));
            }
        }
    }

    void try_batches(spec::ParallelConfig parallel, double elements) {
        const i64 share = query_.batch / parallel.dp;
        for (const i64 micro_batch :
             divisors(share, query_.micro_batch.value_or(max_micro_batch))) {
            if (query_.micro_batch && micro_batch != *query_.micro_batch) continue;
            if (parallel.n_chunks > 1 && share / micro_batch % parallel.pp != 0) continue;
            if (parallel.sequence_parallel &&
                micro_batch * query_.model.seq_length % parallel.tp != 0)
                continue;
            for (const spec::Recompute& recompute : query_.recomputes) {
                for (const int zero_stage : query_.zero_stages) {
                    if (parallel.dp == 1 && zero_stage != query_.zero_stages[0]) continue;
                    parallel.recompute = recompute;
                    parallel.zero_stage = zero_stage;
                    Candidate candidate{{parallel, micro_batch, share / micro_batch, 0, {}},
                                        elements};
                    candidate.layout.time =
                        quick_step_time(step_of(candidate), query_.gpu, query_.trainer);
                    tried_.push_back(std::move(candidate));
                }
            }
        }
    }

    SimulatedStep step_of(const Candidate& candidate) const {
        const Layout& layout = candidate.layout;
        return {.model = query_.model,
                .parallel = layout.parallel,
                .batch = {layout.micro_batch, layout.n_micro_batches, query_.model.seq_length,
                          query_.precision.weights},
                .elements = candidate.elements,
                .overlaps_data = query_.overlaps};
    }

    // Selects the layouts that fit and have the shortest quick times, simulates their schedules,
    // and sorts them by the simulated time. Simulates twice as many layouts as wanted, because the
    // error of a quick time is a few per cent.
    void choose() {
        const auto quick = [](const Candidate& candidate) { return candidate.layout.time.total(); };
        std::ranges::stable_sort(tried_, {}, quick);
        const size_t n_simulated = query_.all_variants ? tried_.size() : 2 * query_.n_wanted;
        std::set<std::tuple<i64, i64, i64>> kept;
        for (Candidate& candidate : tried_) {
            Layout& layout = candidate.layout;
            const std::tuple key{layout.parallel.tp, layout.parallel.pp, layout.micro_batch};
            if (!query_.all_variants && kept.contains(key)) continue;
            layout.bytes = bytes_of(query_, layout);
            if (layout.bytes > query_.memory_bytes) {
                add_rejected(layout);
                continue;
            }
            kept.insert(key);
            layout.time = step_time(step_of(candidate), query_.gpu, query_.trainer);
            found_.fitting.push_back(layout);
            if (found_.fitting.size() >= n_simulated) break;
        }
        std::ranges::stable_sort(found_.fitting, {}, [](const Layout& layout) {
            return std::tuple(layout.time.total(), layout.bytes);
        });
        if (found_.fitting.size() > query_.n_wanted) found_.fitting.resize(query_.n_wanted);
        if (!found_.fitting.empty()) found_.smallest.reset();
    }

    void add_rejected(const Layout& layout) {
        found_.too_large.push_back(layout);
        if (!found_.smallest || layout.bytes < found_.smallest->bytes) found_.smallest = layout;
        if (!found_.fitting.empty() || found_.rejected.size() == 3) return;
        // Keeps one layout for each TP and PP, because its variants exceed the memory for the same
        // reason.
        for (const Layout& other : found_.rejected) {
            if (other.parallel.tp == layout.parallel.tp && other.parallel.pp == layout.parallel.pp)
                return;
        }
        found_.rejected.push_back(layout);
    }

    const LayoutQuery& query_;
    std::vector<Candidate> tried_;
    LayoutSearch found_;
};

}  // namespace

LayoutSearch search_layouts(const LayoutQuery& query) {
    return Search(query).run();
}

}  // namespace lm::cost
