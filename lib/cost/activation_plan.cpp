// SPDX-License-Identifier: Apache-2.0
#include "cost/activation_plan.hpp"

#include <algorithm>
#include <map>

#include "base/as_double.hpp"
#include "base/shape.hpp"
#include "spec/pipeline_schedule.hpp"

namespace lm::cost {

using namespace spec;
namespace {

// The alignment of activations, in bytes. The workspace follows the activations, and
// cublasLtMatmul() requires a workspace aligned to 256 bytes (cuBLAS documentation,
// "cublasLtMatmul()").
constexpr i64 buffer_alignment = 256;
constexpr i64 head_chunk_unit = 64;  // rows

i64 aligned(i64 bytes) {
    return round_up(bytes, buffer_alignment);
}

// The sizes in the shapes of activations, on one tensor rank, with the letters of docs/glossary.md.
struct Sizes {
    i64 b, t, n;  // samples of a micro-batch, tokens of a sample, rows b * t
    i64 r;        // rows of the residual stream and of norms on this rank
    i64 c;        // hidden size
    i64 heads;    // H
    i64 a;        // H * D: columns of attention's output
    i64 q;        // (H + 2G) * D: columns of queries, keys and values
    i64 f, up;    // width of the MLP, and of the up projection: 2 f with a gate
    i64 v;        // rows of the vocabulary, with padding
    i64 chunk;    // rows of the logits that the head computes at a time
    DType x;      // dtype of activations
};

Sizes sizes_of(const ModelConfig& config, const ParallelConfig& parallel, const StepShape& step,
               i64 tp_rank) {
    const TensorShare share = tensor_share(config, parallel, tp_rank);
    return {.b = step.micro_batch,
            .t = step.seq_length,
            .n = step.rows(),
            .r = parallel.sequence_parallel ? step.rows() / parallel.tp : step.rows(),
            .c = config.hidden,
            .heads = share.n_heads,
            .a = share.n_heads * config.head_dim,
            .q = (share.n_heads + 2 * share.n_groups) * config.head_dim,
            .f = share.ffn,
            .up = is_gated(config.activation) ? 2 * share.ffn : share.ffn,
            .v = share.vocab_rows,
            .chunk = head_chunk_rows(step, share.vocab_rows),
            .x = step.compute};
}

// Appends the activations that only some architectures, layouts and devices have.
void add_activations_of_variants(std::vector<ActivationSpec>& table, const ModelConfig& config,
                                 const Sizes& sizes, bool cuda) {
    const auto& [b, t, n, r, c, heads, a, q, f, up, v, chunk, x] = sizes;
    using enum Lifetime;
    using enum Holder;
    // The rows of all tensor ranks, gathered as the input of a GEMM.
    if (r < n) table.push_back({"gathered", {n, c}, x, once});
    if (config.embedding_norm) {
        table.push_back({"embedding", {r, c}, x, per_micro_batch, embedding});
        table.push_back({"embedding_norm_mean", {r}, DType::fp32, per_micro_batch, embedding});
        table.push_back({"embedding_norm_rstd", {r}, DType::fp32, per_micro_batch, embedding});
    }
    if (cuda) {
        table.push_back({"token_order", {n}, DType::int32, per_micro_batch, embedding});
        if (config.position == PositionEmbedding::absolute) {
            table.push_back({"position_order", {n}, DType::int32, per_micro_batch, embedding});
        }
    }
    if (config.position == PositionEmbedding::rope) {
        table.push_back({"rotary_angles", {t, config.rotary_dim()}, DType::fp32, once});
    }
    if (config.position == PositionEmbedding::alibi) {
        table.push_back({"alibi_slopes", {heads}, DType::fp32, once});
    }
    if (config.qk_norm) table.push_back({"qkv_projected", {b, t, q}, x, per_layer});
    if (is_gated(config.activation)) table.push_back({"dgated", {n, f}, x, backward});
}

}  // namespace

i64 head_chunk_rows(const StepShape& step, i64 local_vocab) {
    const i64 fit = step.logits_bytes / (local_vocab * size_of(step.compute)) / head_chunk_unit;
    const i64 most = std::max<i64>(fit, 1) * head_chunk_unit;
    const i64 n_chunks = ceil_div(step.rows(), most);
    return std::min(step.rows(), round_up(ceil_div(step.rows(), n_chunks), head_chunk_unit));
}

std::vector<ActivationSpec> activation_table(const ModelConfig& config,
                                             const ParallelConfig& parallel, const StepShape& step,
                                             i64 tp_rank) {
    const Sizes sizes = sizes_of(config, parallel, step, tp_rank);
    const auto& [b, t, n, r, c, heads, a, q, f, up, v, chunk, x] = sizes;
    const bool full_recompute = parallel.recompute.granularity == Recompute::Granularity::full;
    const bool rotary = config.position == PositionEmbedding::rope;
    constexpr bool cheap = true;
    using enum Lifetime;
    using enum Holder;
    std::vector<ActivationSpec> table = {
        // The inputs of a micro-batch, copied from the loader.
        {"tokens", {b, t}, DType::int32, per_micro_batch, embedding},
        {"positions", {b, t}, DType::int32, per_micro_batch, rotary ? all : embedding},
        {"targets", {b, t}, DType::int32, per_micro_batch, head},
        {"loss_mask", {b, t}, DType::fp32, per_micro_batch, head},
        {"doc_start", {b, t}, DType::int32, per_micro_batch},
        {"sample_ids", {b}, DType::int64, per_micro_batch},
        // The activations of a block, in order: residual stream, norm, attention, residual stream,
        // norm, MLP.
        {"residual", {r, c}, x, per_layer},
        {"attention_norm", {r, c}, x, per_layer, all, cheap},
        {"attention_norm_mean", {r}, DType::fp32, per_layer},
        {"attention_norm_rstd", {r}, DType::fp32, per_layer},
        {"qkv", {b, t, q}, x, per_layer},
        {"attention", {b, t, a}, x, per_layer},
        {"attention_lse", {b, heads, t}, DType::fp32, per_layer},
        {"residual_mid", {r, c}, x, per_layer},
        {"mlp_norm", {r, c}, x, per_layer, all, cheap},
        {"mlp_norm_mean", {r}, DType::fp32, per_layer},
        {"mlp_norm_rstd", {r}, DType::fp32, per_layer},
        {"mlp_up", {n, up}, x, per_layer},
        {"mlp_activation", {n, f}, x, per_layer, all, cheap},
        // The activations after the last block: the stage's output, or the head.
        {"final_residual", {r, c}, x, per_micro_batch},
        {"final_norm", {r, c}, x, per_micro_batch, head},
        {"final_norm_mean", {r}, DType::fp32, per_micro_batch, head},
        {"final_norm_rstd", {r}, DType::fp32, per_micro_batch, head},
        {"losses", {b, t}, DType::fp32, per_micro_batch, head},
        {"dfinal", {r, c}, x, per_micro_batch, head},  // gradient of final_norm
        {"step_sums", {3}, DType::fp64, once},         // the CPU reads it once in each step
        // The output of attention or MLP, before it is added to the residual stream.
        {"branch", {n, c}, x, full_recompute ? once : forward},
        // The logits of a chunk of rows. row_stats holds for each row: the sum of exponentials, the
        // target's logit, the maximum, and the maximum over this rank's vocabulary.
        {"logits", {chunk, v}, x, forward, head},
        {"row_stats", {4, chunk}, DType::fp32, forward, head},
        {"dresidual", {r, c}, x, backward},
        {"dbranch", {r, c}, x, backward},
        {"dnorm", {n, c}, x, backward},
        {"dmlp", {n, up}, x, backward},
        {"dattention", {b, t, a}, x, backward},
        {"dqkv", {b, t, q}, x, backward},
    };
    add_activations_of_variants(table, config, sizes, step.cuda);
    return table;
}

LayerGroup recompute_group(const Recompute& recompute, i64 n_layers, i64 layer) {
    if (recompute.granularity != Recompute::Granularity::full) return {};
    if (recompute.method == Recompute::Method::block) {
        return layer < recompute.n_layers ? LayerGroup{layer, layer + 1} : LayerGroup{};
    }
    const i64 begin = layer / recompute.n_layers * recompute.n_layers;
    return {begin, std::min(begin + recompute.n_layers, n_layers)};
}

i64 n_recomputed_layers(const Recompute& recompute, i64 n_layers) {
    if (recompute.granularity != Recompute::Granularity::full) return 0;
    return recompute.method == Recompute::Method::block ? std::min(recompute.n_layers, n_layers)
                                                        : n_layers;
}

double recomputed_share(const ModelConfig& config, const ParallelConfig& parallel) {
    if (parallel.recompute.granularity != Recompute::Granularity::full) return 0;
    i64 n = 0;
    for (const ModelPart& part : model_parts(config, parallel))
        n += n_recomputed_layers(parallel.recompute, part.n_layers());
    return as_double(n) / as_double(config.n_layers);
}

std::vector<i64> micro_batches_in_flight(const ParallelConfig& parallel, i64 n_micro_batches,
                                         i64 pp_rank) {
    if (parallel.n_chunks == 1) return {std::min(parallel.pp - pp_rank, n_micro_batches)};
    // The schedule repeats, so the first 4 * pp micro-batches already reach the maximum.
    const i64 enough = std::min(round_up(n_micro_batches, parallel.pp), 4 * parallel.pp);
    const PipelineShape shape{parallel.pp, parallel.n_chunks, enough};
    const auto n_chunks = static_cast<size_t>(parallel.n_chunks);
    std::vector<i64> now(n_chunks), most(n_chunks);
    for (const PipelineAction& action : pipeline_actions(shape, pp_rank)) {
        const auto chunk = static_cast<size_t>(action.chunk);
        if (action.op == PipelineOp::forward) most[chunk] = std::max(most[chunk], ++now[chunk]);
        if (action.op == PipelineOp::backward) --now[chunk];
    }
    for (i64& n : most) n = std::min(n, n_micro_batches);
    return most;
}

std::vector<ModelPart> StageShape::parts() const {
    std::vector<ModelPart> parts;
    for (const ChunkShape& chunk : chunks) parts.push_back(chunk.part);
    return parts;
}

StageShape stage_shape(const ModelConfig& config, const ParallelConfig& parallel,
                       const StepShape& step, i64 pp_rank, i64 tp_rank) {
    StageShape stage{.chunks = {}, .tp_rank = tp_rank};
    const std::vector<ModelPart> parts = stage_parts(config, parallel, pp_rank);
    const std::vector<i64> in_flight =
        micro_batches_in_flight(parallel, step.n_micro_batches, pp_rank);
    for (size_t chunk = 0; chunk < parts.size(); ++chunk)
        stage.chunks.push_back({parts[chunk], in_flight[chunk]});
    return stage;
}

namespace {

bool has(const ModelPart& part, const ActivationSpec& spec) {
    return spec.holder == Holder::all ||
           (spec.holder == Holder::embedding ? part.embedding : part.head);
}

bool has(const StageShape& stage, const ActivationSpec& spec) {
    return std::ranges::any_of(stage.chunks,
                               [&spec](const ChunkShape& chunk) { return has(chunk.part, spec); });
}

// Returns the index of the copy that `layer` uses in the working set (the memory of recomputed
// activations), or -1 when the activation is stored. The residual stream at the start of a group is
// stored, because recomputation starts from it.
i64 working_copy(const Recompute& recompute, const ActivationSpec& spec, i64 n_layers, i64 layer) {
    if (recompute.granularity == Recompute::Granularity::none) return -1;
    if (recompute.granularity == Recompute::Granularity::selective) return spec.cheap ? 0 : -1;
    const LayerGroup group = recompute_group(recompute, n_layers, layer);
    if (group.empty() || (spec.name == "residual" && layer == group.begin)) return -1;
    return layer - group.begin;
}

// The copies of a per_layer activation.
struct LayerCopies {
    i64 working = 0;  // in the working set, which all chunks share
    i64 stored = 0;   // in the memory of the chunks, for all micro-batches in flight
};

LayerCopies layer_copies(const Recompute& recompute, const ActivationSpec& spec,
                         const StageShape& stage) {
    LayerCopies copies;
    for (const ChunkShape& chunk : stage.chunks) {
        const i64 n_layers = chunk.part.n_layers();
        for (i64 layer = 0; layer < n_layers; ++layer) {
            const i64 copy = working_copy(recompute, spec, n_layers, layer);
            copies.working = std::max(copies.working, copy + 1);
            if (copy < 0) copies.stored += chunk.in_flight;
        }
    }
    return copies;
}

// Assigns an offset to each activation of a stage. Order in memory:
// 1. the activations that exist once, and the working set (the memory of recomputed activations)
// 2. the stored activations of chunk 0, of chunk 1, ...
// 3. the scratch of forward and the scratch of backward, which start at the same offset and overlap
class Planner {
  public:
    Planner(std::vector<ActivationSpec> table, const Recompute& recompute, const StageShape& stage)
        : table_(std::move(table)), recompute_(recompute), stage_(stage) {}

    ActivationPlan plan() {
        for (const ActivationSpec& spec : table_) {
            if (spec.lifetime == Lifetime::once && has(stage_, spec)) place(spec, {}, end_);
            if (spec.lifetime == Lifetime::per_layer) place_working_set(spec);
        }
        for (i64 chunk = 0; chunk < n_chunks(); ++chunk) place_chunk(chunk);
        i64 forward_end = end_;
        i64 backward_end = end_;
        for (const ActivationSpec& spec : table_) {
            if (!has(stage_, spec)) continue;
            if (spec.lifetime == Lifetime::forward) place(spec, {}, forward_end);
            if (spec.lifetime == Lifetime::backward) place(spec, {}, backward_end);
        }
        plan_.bytes = std::max(forward_end, backward_end);
        return std::move(plan_);
    }

  private:
    struct Owner {
        i64 chunk = -1;
        i64 slot = -1;
        i64 layer = -1;
    };

    i64 n_chunks() const { return static_cast<i64>(stage_.chunks.size()); }
    const ChunkShape& chunk_at(i64 chunk) const {
        return stage_.chunks[static_cast<size_t>(chunk)];
    }
    void put(const ActivationSpec& spec, const Owner& owner, i64 offset) {
        plan_.placed.push_back(
            {spec.name, owner.chunk, owner.slot, owner.layer, spec.shape, spec.dtype, offset});
    }
    void place(const ActivationSpec& spec, const Owner& owner, i64& end) {
        put(spec, owner, end);
        end += aligned(spec.bytes());
    }

    void place_working_set(const ActivationSpec& spec) {
        working_set_.emplace(spec.name, end_);
        end_ += layer_copies(recompute_, spec, stage_).working * aligned(spec.bytes());
    }

    void place_chunk(i64 chunk) {
        const ChunkShape& shape = chunk_at(chunk);
        for (i64 slot = 0; slot < shape.in_flight; ++slot) {
            for (const ActivationSpec& spec : table_) {
                if (spec.lifetime == Lifetime::per_micro_batch && has(shape.part, spec)) {
                    place(spec, {chunk, slot}, end_);
                }
                if (spec.lifetime == Lifetime::per_layer) {
                    place_layers(spec, {chunk, slot}, shape.part.n_layers());
                }
            }
        }
    }

    void place_layers(const ActivationSpec& spec, Owner owner, i64 n_layers) {
        for (owner.layer = 0; owner.layer < n_layers; ++owner.layer) {
            const i64 copy = working_copy(recompute_, spec, n_layers, owner.layer);
            if (copy < 0) {
                place(spec, owner, end_);
            } else {
                put(spec, owner, working_set_.at(spec.name) + copy * aligned(spec.bytes()));
            }
        }
    }

    std::vector<ActivationSpec> table_;
    const Recompute& recompute_;
    const StageShape& stage_;
    std::map<std::string, i64> working_set_;  // offset of the first copy of each activation
    ActivationPlan plan_;
    i64 end_ = 0;
};

}  // namespace

ActivationPlan plan_activations(const ModelConfig& config, const ParallelConfig& parallel,
                                const StepShape& step, const StageShape& stage) {
    return Planner(activation_table(config, parallel, step, stage.tp_rank), parallel.recompute,
                   stage)
        .plan();
}

i64 activation_bytes(const std::vector<ActivationSpec>& table, const Recompute& recompute,
                     const StageShape& stage) {
    i64 bytes = 0, forward = 0, backward = 0;
    for (const ActivationSpec& spec : table) {
        const i64 size = aligned(spec.bytes());
        if (spec.lifetime == Lifetime::per_layer) {
            const LayerCopies copies = layer_copies(recompute, spec, stage);
            bytes += (copies.working + copies.stored) * size;
        } else if (spec.lifetime == Lifetime::per_micro_batch) {
            for (const ChunkShape& chunk : stage.chunks) {
                if (has(chunk.part, spec)) bytes += chunk.in_flight * size;
            }
        } else if (has(stage, spec)) {
            const bool once = spec.lifetime == Lifetime::once;
            (once ? bytes : spec.lifetime == Lifetime::forward ? forward : backward) += size;
        }
    }
    return bytes + std::max(forward, backward);
}

}  // namespace lm::cost
