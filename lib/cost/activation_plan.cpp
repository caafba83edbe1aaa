// SPDX-License-Identifier: Apache-2.0
#include "cost/activation_plan.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "base/shape.hpp"
#include "base/types.hpp"
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
    i64 f;        // width of the MLP
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
            .f = share.ffn,
            .v = share.vocab_rows,
            .chunk = head_chunk_rows(step, share.vocab_rows),
            .x = step.compute};
}

// The sizes that may differ from layer to layer.
struct LayerWidths {
    i64 heads = 0;             // H
    i64 a = 0;                 // H * D: columns of attention's output
    i64 q = 0;                 // (H + 2G) * D: columns of queries, keys and values
    i64 up = 0, gated = 0;     // width of the up projection, 2 f with a gate; f with a gate, else 0
    bool positions = false;    // attention reads the positions of the tokens
    bool slopes = false;       // attention adds ALiBi's slopes
    bool parallel = false;     // attention and MLP read the same residual stream
    bool shared_norm = false;  // one norm before attention and MLP
    bool input_norms = false, output_norms = false;  // spec::NormPlacement

    void include(const LayerWidths& other) {
        a = std::max(a, other.a);
        q = std::max(q, other.q);
        up = std::max(up, other.up);
        gated = std::max(gated, other.gated);
        positions = positions || other.positions;
        slopes = slopes || other.slopes;
        parallel = parallel || other.parallel;
        shared_norm = shared_norm || other.shared_norm;
        input_norms = input_norms || other.input_norms;
        output_norms = output_norms || other.output_norms;
    }
};

LayerWidths layer_widths_of(const ModelConfig& config, const LayerConfig& layer,
                            const ParallelConfig& parallel, i64 f, i64 tp_rank) {
    const HeadShare share = head_share(config, layer, parallel, tp_rank);
    LayerWidths sizes{.heads = share.n_heads,
                      .a = share.n_heads * config.head_dim,
                      .q = (share.n_heads + 2 * share.n_groups) * config.head_dim,
                      .up = is_gated(layer.activation) ? 2 * f : f,
                      .gated = is_gated(layer.activation) ? f : 0,
                      .parallel = layer.parallel_residual,
                      .shared_norm = layer.shared_norm,
                      .input_norms = norms_input(layer.norms),
                      .output_norms = norms_output(layer.norms)};
    switch (layer.position) {
        case PositionEmbedding::rope:
            sizes.positions = true;
            break;
        case PositionEmbedding::alibi:
            sizes.slopes = true;
            break;
        case PositionEmbedding::absolute:
        case PositionEmbedding::none:
            break;
    }
    return sizes;
}

// Appends the activations of a layer, in order: residual stream, norm, attention, residual stream,
// norm, MLP.
void add_layer(std::vector<ActivationSpec>& table, const ModelConfig& config, const Sizes& sizes,
               const LayerWidths& widths, i64 layer) {
    const auto& [b, t, n, r, c, f, v, chunk, x] = sizes;
    const auto& [heads, a, q, up, gated, positions, slopes, parallel, shared_norm, input_norms,
                 output_norms] = widths;
    const auto add = [&](std::string_view name, const Shape& shape, DType dtype,
                         bool cheap = false) {
        table.push_back({name, shape, dtype, Lifetime::layer, Holder::all, cheap, layer});
    };
    constexpr bool cheap = true;
    add("residual", {r, c}, x);
    if (input_norms) {
        add("attention_norm", {r, c}, x, cheap);
        add("attention_norm_mean", {r}, DType::fp32);
        add("attention_norm_rstd", {r}, DType::fp32);
    }
    if (config.qk_norm) add("qkv_projected", {b, t, q}, x);
    if (config.joint_qk_norm) add("qk_squares", {2, n}, DType::fp32);
    add("qkv", {b, t, q}, x);
    add("attention", {b, t, a}, x);
    add("attention_lse", {b, heads, t}, DType::fp32);
    if (output_norms) {
        add("attention_branch", {r, c}, x);
        add("attention_output_norm_mean", {r}, DType::fp32);
        add("attention_output_norm_rstd", {r}, DType::fp32);
    }
    if (!parallel) add("residual_mid", {r, c}, x);
    if (input_norms && !shared_norm) {
        add("mlp_norm", {r, c}, x, cheap);
        add("mlp_norm_mean", {r}, DType::fp32);
        add("mlp_norm_rstd", {r}, DType::fp32);
    }
    add("mlp_up", {n, up}, x);
    add("mlp_activation", {n, f}, x, cheap);
    if (output_norms) {
        add("mlp_branch", {r, c}, x);
        add("mlp_output_norm_mean", {r}, DType::fp32);
        add("mlp_output_norm_rstd", {r}, DType::fp32);
    }
}

// Appends the activations that only some architectures, layouts and devices have. widest: the
// largest sizes of all layers.
void add_activations_of_variants(std::vector<ActivationSpec>& table, const ModelConfig& config,
                                 const Sizes& sizes, const LayerWidths& widest, bool cuda) {
    const auto& [b, t, n, r, c, f, v, chunk, x] = sizes;
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
        if (has_table(config.position)) {
            table.push_back({"position_order", {n}, DType::int32, per_micro_batch, embedding});
        }
    }
    if (const i64 n_tables = std::ssize(rotary_frequencies(config)); n_tables > 0) {
        table.push_back({"rotary_angles", {n_tables * t, config.rotary_dim()}, DType::fp32, once});
        if (config.query_beta > 0)
            table.push_back({"query_scales", {t, config.head_dim}, DType::fp32, once});
    }
    // Backward does not read the stream between attention and MLP of a parallel layer.
    if (widest.parallel) table.push_back({"residual_mid", {r, c}, x, once});
    if (widest.slopes) table.push_back({"alibi_slopes", {config.n_heads}, DType::fp32, once});
    if (config.joint_qk_norm) table.push_back({"qk_products", {2, n}, DType::fp32, backward});
    if (widest.gated > 0) table.push_back({"dgated", {n, f}, x, backward});
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
    const auto& [b, t, n, r, c, f, v, chunk, x] = sizes;
    std::vector<ActivationSpec> table;
    table.reserve(static_cast<size_t>(22 * config.n_layers + 64));
    LayerWidths widest;
    for (i64 layer = 0; layer < config.n_layers; ++layer) {
        const LayerWidths own = layer_widths_of(config, config.layer(layer), parallel, f, tp_rank);
        add_layer(table, config, sizes, own, layer);
        widest.include(own);
    }
    const bool full_recompute = parallel.recompute.granularity == Recompute::Granularity::full;
    using enum Lifetime;
    using enum Holder;
    const ActivationSpec others[] = {
        // The inputs of a micro-batch, copied from the loader.
        {"tokens", {b, t}, DType::int32, per_micro_batch, embedding},
        {"positions", {b, t}, DType::int32, per_micro_batch, widest.positions ? all : embedding},
        {"targets", {b, t}, DType::int32, per_micro_batch, head},
        {"loss_mask", {b, t}, DType::fp32, per_micro_batch, head},
        {"doc_start", {std::ssize(windows(config)) * b, t}, DType::int32, per_micro_batch},
        {"sample_ids", {b}, DType::int64, per_micro_batch},
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
        {"dmlp", {n, widest.up}, x, backward},
        {"dattention", {b, t, widest.a}, x, backward},
        {"dqkv", {b, t, widest.q}, x, backward},
    };
    table.insert(table.end(), std::begin(others), std::end(others));
    add_activations_of_variants(table, config, sizes, widest, step.cuda);
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
    switch (spec.holder) {
        case Holder::all:
            return spec.layer < 0 ||
                   (spec.layer >= part.first_layer && spec.layer < part.end_layer);
        case Holder::embedding:
            return part.embedding;
        case Holder::head:
            return part.head;
    }
    __builtin_unreachable();
}

bool has(const StageShape& stage, const ActivationSpec& spec) {
    return std::ranges::any_of(stage.chunks,
                               [&spec](const ChunkShape& chunk) { return has(chunk.part, spec); });
}

// Returns the index of the copy that the activation of a layer of `part` uses in the working set
// (the memory of recomputed activations), or -1 when the activation is stored. The residual stream
// at the start of a group is stored, because recomputation starts from it.
i64 working_copy(const Recompute& recompute, const ActivationSpec& spec, const ModelPart& part) {
    if (recompute.granularity == Recompute::Granularity::none) return -1;
    if (recompute.granularity == Recompute::Granularity::selective) return spec.cheap ? 0 : -1;
    const i64 layer = spec.layer - part.first_layer;
    const LayerGroup group = recompute_group(recompute, part.n_layers(), layer);
    if (group.empty() || (spec.name == "residual" && layer == group.begin)) return -1;
    return layer - group.begin;
}

// Returns the rows of the layers from `layer` on, and those of no layer. activation_table() has the
// layers first, in order. A search over layouts must not read all layers for each stage.
std::span<const ActivationSpec> rows_from(std::span<const ActivationSpec> table, i64 layer) {
    const auto begin = std::ranges::lower_bound(table, layer, {}, [](const ActivationSpec& spec) {
        return spec.layer < 0 ? INT64_MAX : spec.layer;
    });
    return {begin, table.end()};
}

std::span<const ActivationSpec> layer_rows(std::span<const ActivationSpec> table,
                                           const ModelPart& part) {
    const auto rows = rows_from(table, part.first_layer);
    return rows.first(rows.size() - rows_from(rows, part.end_layer).size());
}

// The copies of an activation in the working set, which all layers and chunks share.
struct Working {
    i64 copies = 0;
    i64 bytes = 0;  // of the largest copy
    i64 offset = 0;
};
using WorkingSet = std::map<std::string_view, Working>;

WorkingSet working_set(const std::vector<ActivationSpec>& table, const Recompute& recompute,
                       const StageShape& stage) {
    WorkingSet set;
    for (const ChunkShape& chunk : stage.chunks) {
        for (const ActivationSpec& spec : layer_rows(table, chunk.part)) {
            const i64 copy = working_copy(recompute, spec, chunk.part);
            if (copy < 0) continue;
            Working& working = set[spec.name];
            working.copies = std::max(working.copies, copy + 1);
            working.bytes = std::max(working.bytes, aligned(spec.bytes()));
        }
    }
    return set;
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
        }
        working_set_ = working_set(table_, recompute_, stage_);
        for (auto& [name, working] : working_set_) {
            working.offset = end_;
            end_ += working.copies * working.bytes;
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

    void place_chunk(i64 chunk) {
        const ChunkShape& shape = chunk_at(chunk);
        for (i64 slot = 0; slot < shape.in_flight; ++slot) {
            for (const ActivationSpec& spec : table_) {
                if (!has(shape.part, spec)) continue;
                if (spec.lifetime == Lifetime::per_micro_batch) place(spec, {chunk, slot}, end_);
                if (spec.lifetime == Lifetime::layer) {
                    place_layer(spec, {chunk, slot, spec.layer - shape.part.first_layer});
                }
            }
        }
    }

    void place_layer(const ActivationSpec& spec, const Owner& owner) {
        const i64 copy = working_copy(recompute_, spec, chunk_at(owner.chunk).part);
        if (copy < 0) {
            place(spec, owner, end_);
        } else {
            const Working& working = working_set_.at(spec.name);
            put(spec, owner, working.offset + copy * working.bytes);
        }
    }

    std::vector<ActivationSpec> table_;
    const Recompute& recompute_;
    const StageShape& stage_;
    WorkingSet working_set_;
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
    for (const auto& [name, working] : working_set(table, recompute, stage)) {
        bytes += working.copies * working.bytes;
    }
    for (const ChunkShape& chunk : stage.chunks) {
        for (const ActivationSpec& spec : layer_rows(table, chunk.part)) {
            if (working_copy(recompute, spec, chunk.part) < 0) {
                bytes += chunk.in_flight * aligned(spec.bytes());
            }
        }
    }
    for (const ActivationSpec& spec : rows_from(table, INT64_MAX)) {
        const i64 size = aligned(spec.bytes());
        switch (spec.lifetime) {
            case Lifetime::layer:
                break;  // added above
            case Lifetime::per_micro_batch:
                for (const ChunkShape& chunk : stage.chunks) {
                    if (has(chunk.part, spec)) bytes += chunk.in_flight * size;
                }
                break;
            case Lifetime::once:
                if (has(stage, spec)) bytes += size;
                break;
            case Lifetime::forward:
                if (has(stage, spec)) forward += size;
                break;
            case Lifetime::backward:
                if (has(stage, spec)) backward += size;
                break;
        }
    }
    return bytes + std::max(forward, backward);
}

}  // namespace lm::cost
