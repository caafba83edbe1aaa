// SPDX-License-Identifier: Apache-2.0
#include "cost/megatron_memory.hpp"

#include <algorithm>

#include "base/types.hpp"
#include "cost/formulas.hpp"

namespace lm::cost {

using namespace spec;
namespace {

// Returns the bytes of the input of a layer, for one micro-batch.
double input_bytes(const ModelConfig& model, const ParallelConfig& parallel,
                   const StepShape& step) {
    const double share = parallel.sequence_parallel ? as_double(parallel.tp) : 1;
    return 2 * as_double(step.rows()) * as_double(model.hidden) / share;
}

// Returns the bytes that a layer without full recomputation keeps for one micro-batch (section 4.1,
// tables 1 and 2), with 2-byte activations. Every tensor rank keeps the whole inputs of the norms,
// of query-key-value and of the MLP, and two dropout masks (10 bytes of [rows, h]), unless sequence
// parallelism divides them. Tensor ranks divide query, key and value, the input of the output
// projection, and the inputs and the output of the activation function. Unfused attention keeps the
// softmax, the dropped scores and a mask, 5 bytes a score, unless selective recomputation computes
// them again.
double layer_bytes(const ModelConfig& model, const LayerConfig& layer,
                   const ParallelConfig& parallel, const StepShape& step) {
    const double rows = as_double(step.rows());
    const double tp = as_double(parallel.tp);
    const double share = parallel.sequence_parallel ? tp : 1;
    const double gates = is_gated(layer.activation) ? 2 : 1;
    const double divided = 2 * as_double(model.qkv_rows(layer)) +
                           2 * as_double(model.attention_width()) +
                           (2 * gates + 2) * as_double(model.ffn_hidden);
    const double scores = parallel.recompute.granularity == Recompute::Granularity::selective
                              ? 0
                              : 5 * as_double(model.n_heads) * as_double(step.seq_length);
    return rows * (10 * as_double(model.hidden) / share + (divided + scores) / tp);
}

// Returns the bytes that all chunks of a stage keep for one micro-batch. Full recomputation keeps
// the input of each group of layers that are recomputed together (section 5).
double kept_bytes(const ModelConfig& model, const ParallelConfig& parallel, const StepShape& step,
                  const std::vector<ModelPart>& parts) {
    const Recompute& recompute = parallel.recompute;
    i64 n_inputs = 0;
    double stored = 0;
    for (const ModelPart& part : parts) {
        const i64 recomputed = n_recomputed_layers(recompute, part.n_layers());
        const bool is_uniform = recompute.method == Recompute::Method::uniform;
        n_inputs += is_uniform ? ceil_div(recomputed, recompute.n_layers) : recomputed;
        for (i64 i = part.first_layer + recomputed; i < part.end_layer; ++i) {
            stored += layer_bytes(model, model.layer(i), parallel, step);
        }
    }
    return stored + as_double(n_inputs) * input_bytes(model, parallel, step);
}

// Returns the bytes of the layers of a stage that are recomputed at the same time.
double recomputed_bytes(const ModelConfig& model, const ParallelConfig& parallel,
                        const StepShape& step, const std::vector<ModelPart>& parts) {
    double most = 0;
    for (const ModelPart& part : parts) {
        const LayerGroup group = recompute_group(parallel.recompute, part.n_layers(), 0);
        double bytes = 0;
        for (i64 i = group.begin; i < group.end; ++i) {
            bytes += layer_bytes(model, model.layer(part.first_layer + i), parallel, step);
        }
        most = std::max(most, bytes);
    }
    return most;
}

// Returns the largest number of chunk passes whose activations a stage keeps: p - r micro-batches
// under 1F1B; with v chunks, (v - 1) p + 2 (p - r - 1) + 1 (arXiv 2104.04473, section 2.2; arXiv
// 2205.05198, section 4.2.3).
double chunks_in_flight(const ParallelConfig& parallel, i64 n_micro_batches, i64 pp_rank) {
    const i64 p = parallel.pp;
    const i64 v = parallel.n_chunks;
    const i64 most = v == 1 ? p - pp_rank : (v - 1) * p + 2 * (p - pp_rank - 1) + 1;
    return as_double(std::min(most, n_micro_batches * v));
}

// Returns the memory of stage `pp_rank`, which has `parts` of the model.
MegatronMemory memory_of_stage(const ModelConfig& model, const ParallelConfig& parallel,
                               const StepShape& step, const Precision& precision,
                               const RankElements& of_rank, const std::vector<ModelPart>& parts,
                               i64 pp_rank) {
    const double elements = as_double(of_rank.of(parts).tensors);
    const bool half = is_half(precision.weights);
    const double share = parallel.zero_stage == 1 ? as_double(parallel.dp) : 1;
    const double state = elements * ((half ? 6 : 8) + (half ? 12 : 8) / share);
    const bool embedding = pp_rank == 0;
    const bool head = pp_rank == parallel.pp - 1;
    const double in_flight = chunks_in_flight(parallel, step.n_micro_batches, pp_rank);
    double activations =
        in_flight / as_double(parallel.n_chunks) * kept_bytes(model, parallel, step, parts);
    if (embedding) {  // the dropout masks (section 4.3)
        const double n_parts = parallel.sequence_parallel ? as_double(parallel.tp) : 1;
        activations += as_double(parallel.pp * step.rows() * model.hidden) / n_parts;
    }
    if (head) {  // the inputs of the final norm and of the projection, and fp32 logits
                 // (section 4.3)
        activations += 4 * as_double(step.rows()) *
                       as_double(model.hidden + padded_vocab(model, parallel)) /
                       as_double(parallel.tp);
    }
    activations += recomputed_bytes(model, parallel, step, parts);
    const double bytes_per_value = half ? 1 : 2;
    return {.state = static_cast<i64>(state),
            .activations = static_cast<i64>(activations * bytes_per_value)};
}

}  // namespace

MegatronMemory megatron_memory(const ModelConfig& model, const ParallelConfig& parallel,
                               const StepShape& step, const Precision& precision, i64 pp_rank) {
    return memory_of_stage(model, parallel, step, precision, rank_elements(model, parallel, 0),
                           stage_parts(model, parallel, pp_rank), pp_rank);
}

MegatronMemory largest_megatron_memory(const ModelConfig& model, const ParallelConfig& parallel,
                                       const StepShape& step, const Precision& precision) {
    const RankElements elements = rank_elements(model, parallel, 0);
    const std::vector<ModelPart> all = model_parts(model, parallel);
    MegatronMemory largest;
    for (i64 stage = 0; stage < parallel.pp; ++stage) {
        const MegatronMemory memory = memory_of_stage(model, parallel, step, precision, elements,
                                                      stage_parts(all, parallel, stage), stage);
        if (memory.total() > largest.total()) largest = memory;
    }
    return largest;
}

}  // namespace lm::cost
