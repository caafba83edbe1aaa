// SPDX-License-Identifier: Apache-2.0
#include "cost/layout_search.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "base/types.hpp"
#include "cost/megatron_memory.hpp"
#include "cost/memory.hpp"

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
           model.ffn_hidden % tp == 0 && query.parallel.pad_vocab_to % tp == 0 &&
           std::ranges::all_of(layer_kinds(model), [tp](const spec::LayerConfig& layer) {
               return layer.n_groups % tp == 0;
           });
}

// A stage of a pipeline. A later stage with equal layers in the same order and the same number of
// elements, and equally without embedding and head, needs at most as much memory, because it has no
// more micro-batches in flight.
struct Stage {
    i64 rank = 0;
    std::vector<spec::ModelPart> parts;
};

// The layouts with the same TP, PP, chunks and division of layers.
struct Grid {
    spec::ParallelConfig parallel;
    // The elements of a tensor rank. All tensor ranks have equally many, because TP divides all
    // sizes.
    spec::RankElements elements;
    NcclUse nccl;
    double most_elements = 0;   // parameters of the largest rank
    std::vector<Stage> stages;  // the stages whose memory may be largest
    // Micro-batches in flight in the chunks of each of `stages`, by the micro-batches of a step.
    std::map<i64, std::vector<std::vector<i64>>> in_flight;
};

Grid grid_of(const LayoutQuery& query, const spec::ParallelConfig& parallel,
             const spec::RankElements& elements) {
    Grid grid{.parallel = parallel, .elements = elements, .nccl = query.nccl};
    if (!grid.nccl.tensor_comm_sms)
        grid.nccl.tensor_comm_sms = tensor_comm_sms(query.model, parallel);
    const std::vector<spec::ModelPart> parts = model_parts(query.model, parallel);
    const std::vector<spec::LayerConfig> kinds = layer_kinds(query.model);
    std::set<std::tuple<std::vector<i64>, i64, bool, bool>> seen;
    i64 most = 0;
    for (i64 rank = 0; rank < parallel.pp; ++rank) {
        Stage stage{.rank = rank, .parts = stage_parts(parts, parallel, rank)};
        std::vector<i64> layers;  // the index in `kinds` of each layer
        for (const spec::ModelPart& part : stage.parts) {
            for (i64 layer = part.first_layer; layer < part.end_layer; ++layer)
                layers.push_back(index_of(kinds, query.model.layer(layer)));
        }
        const i64 n_elements = elements.of(stage.parts).tensors;
        most = std::max(most, n_elements);
        if (seen.emplace(layers, n_elements, rank == 0, rank == parallel.pp - 1).second)
            grid.stages.push_back(std::move(stage));
    }
    grid.most_elements = as_double(most);
    return grid;
}

const std::vector<std::vector<i64>>& in_flight(Grid& grid, i64 n_micro_batches) {
    const auto [at, is_new] = grid.in_flight.try_emplace(n_micro_batches);
    if (is_new) {
        for (const Stage& stage : grid.stages)
            at->second.push_back(
                micro_batches_in_flight(grid.parallel, n_micro_batches, stage.rank));
    }
    return at->second;
}

// Returns the memory of the rank that needs most.
i64 bytes_of(const LayoutQuery& query, Grid& grid, const Layout& layout) {
    const StepShape step{.micro_batch = layout.micro_batch,
                         .seq_length = query.model.seq_length,
                         .n_micro_batches = layout.n_micro_batches};
    if (query.is_megatron)
        return largest_megatron_memory(query.model, layout.parallel, step, query.precision).total();
    const RankMemory memory = rank_memory(query.model, layout.parallel, step, query.precision,
                                          {1, true, query.attention}, grid.elements, 0);
    const std::vector<std::vector<i64>>& slots = in_flight(grid, layout.n_micro_batches);
    i64 largest = 0;
    for (size_t i = 0; i < grid.stages.size(); ++i) {
        const Stage& stage = grid.stages[i];
        StageShape shape;
        for (size_t chunk = 0; chunk < stage.parts.size(); ++chunk)
            shape.chunks.push_back({stage.parts[chunk], slots[i][chunk]});
        const i64 nccl = nccl_bytes(query.model, layout.parallel, stage.rank, grid.nccl);
        largest = std::max(largest, memory.of(shape).total() + nccl);
    }
    return largest + query.allowance_bytes;
}

// The search of one query. The candidates of a grid share its parts of the model, their elements
// and their micro-batches in flight, because computing these for each candidate would take seconds
// for a large model on 10,000 GPUs.
class Search {
  public:
    explicit Search(const LayoutQuery& query) : query_(query) {}

    LayoutSearch run() {
        for (const i64 tp : divisors(query_.gpu.gpus_per_node, query_.gpu.gpus_per_node)) {
            if ((query_.tp && tp != *query_.tp) || !tensor_ranks_fit(query_, tp)) continue;
            spec::ParallelConfig parallel = query_.parallel;
            parallel.tp = tp;
            const spec::RankElements elements =
                rank_elements(query_.model, parallel, 0, query_.precision.optimizer);
            for (const i64 pp : divisors(query_.n_gpus / tp, query_.model.n_layers)) {
                parallel.pp = pp;
                if (!query_.pp || pp == *query_.pp) try_grids(parallel, elements);
            }
        }
        found_.n_tried = static_cast<i64>(tried_.size());
        choose();
        return std::move(found_);
    }

  private:
    struct Candidate {
        Layout layout;
        Grid* grid;
    };

    void try_grids(spec::ParallelConfig parallel, const spec::RankElements& elements) {
        parallel.dp = query_.n_gpus / parallel.ranks_per_replica();
        parallel.sequence_parallel = query_.parallel.sequence_parallel && parallel.tp > 1;
        if (query_.batch % parallel.dp != 0) return;
        for (const i64 n_chunks : query_.n_chunks) {
            const i64 n_parts = parallel.pp * n_chunks;
            if (n_chunks > 1 && (parallel.pp == 1 || query_.model.n_layers % n_parts != 0))
                continue;
            for (const spec::PipelineBalance balance : query_.balances) {
                if (parallel.pp == 1 && balance != query_.balances[0]) continue;
                parallel.n_chunks = n_chunks;
                parallel.balance = balance;
                grids_.push_back(grid_of(query_, parallel, elements));
                try_batches(grids_.back());
            }
        }
    }

    void try_batches(Grid& grid) {
        spec::ParallelConfig parallel = grid.parallel;
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
                    Candidate candidate{{parallel, micro_batch, share / micro_batch, 0, {}}, &grid};
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
                .optimizer = query_.precision.optimizer,
                .elements = candidate.grid->most_elements,
                .overlaps_data = query_.nccl.overlap};
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
            layout.bytes = bytes_of(query_, *candidate.grid, layout);
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
        // Keeps one layout for each TP and PP, because all layouts with these sizes exceed the
        // memory for the same reason.
        for (const Layout& other : found_.rejected) {
            if (other.parallel.tp == layout.parallel.tp && other.parallel.pp == layout.parallel.pp)
                return;
        }
        found_.rejected.push_back(layout);
    }

    const LayoutQuery& query_;
    std::deque<Grid> grids_;  // candidates point to its elements
    std::vector<Candidate> tried_;
    LayoutSearch found_;
};

}  // namespace

LayoutSearch search_layouts(const LayoutQuery& query) {
    return Search(query).run();
}

}  // namespace lm::cost
