// SPDX-License-Identifier: Apache-2.0
#include "cost/layer_time.hpp"

#include <algorithm>

#include "base/types.hpp"
#include "cost/formulas.hpp"

namespace lm::cost {

using namespace spec;
namespace {

// LayerSizes of one micro-batch on one tensor rank.
struct LayerSizes {
    double rows;     // B * T
    double element;  // bytes
    double hidden;
    double qkv;    // rows of the query-key-value weight of this rank
    double heads;  // width of all heads of this rank, H * D / tp
    double ffn;    // F / tp
    double tp;
    double gates;  // matrices before the activation function: 2 with a gate, else 1
};

LayerSizes layer_sizes_of(const ModelConfig& model, const LayerConfig& layer,
                          const ParallelConfig& parallel, const StepBatch& batch) {
    const double tp = as_double(parallel.tp);
    return {.rows = as_double(batch.micro_batch) * as_double(batch.seq_length),
            .element = as_double(size_of(batch.dtype)),
            .hidden = as_double(model.hidden),
            .qkv = as_double(model.qkv_rows(layer)) / tp,
            .heads = as_double(model.attention_width()) / tp,
            .ffn = as_double(model.ffn_hidden) / tp,
            .tp = tp,
            .gates = is_gated(layer.activation) ? 2.0 : 1.0};
}

// Returns the seconds of the four products of a forward pass. The backward pass has two products
// for each of these, one for the gradient of each operand.
double products_s(const LayerSizes& s, const Hardware& gpu, DType dtype) {
    const auto product = [&](double n, double k) {
        return product_seconds(gpu, dtype, s.rows, n, k);
    };
    return product(s.qkv, s.hidden) + product(s.hidden, s.heads) +
           product(s.gates * s.ffn, s.hidden) + product(s.hidden, s.ffn);
}

// In a forward pass, the attention of a head has two products of 2 T^2 D operations. A fused kernel
// skips the masked half of the operations. The backward pass of a fused kernel has five such
// products, of which one recomputes the scores. An unfused backward pass has four such products.
// Without a fused kernel, softmax and dropout also read and write the scores. With 2-byte elements,
// a forward pass reads and writes 13 bytes for each score: 2 to write the scores, 4 for softmax, 5
// for dropout and its mask, 2 to read the probabilities. An unfused backward pass reads and writes
// 17 bytes for each score.
Passes attention_passes(const ModelConfig& model, i64 window, const LayerSizes& s,
                        const StepBatch& batch, const Hardware& gpu, bool fused) {
    const double rate = gpu.flops(batch.dtype) * gpu.attention_fraction;
    const double keys = mean_keys(window, as_double(batch.seq_length));
    Passes passes;
    if (fused) {
        passes.forward.attention_s = 4 * s.rows * keys * s.heads / rate;
        passes.backward.attention_s = 2.5 * passes.forward.attention_s;
        return passes;
    }
    const double all_keys = as_double(batch.seq_length);
    const double scores = s.rows * all_keys * s.heads / as_double(model.head_dim);
    const double forward_s = 4 * s.rows * all_keys * s.heads / rate;
    passes.forward.attention_s = forward_s + stream_seconds(gpu, 13 * s.element / 2 * scores);
    passes.backward.attention_s = 2 * forward_s + stream_seconds(gpu, 17 * s.element / 2 * scores);
    return passes;
}

// Bytes that the other operations of a layer read and write for each element of 2 bytes.
// Forward:
//   hidden: 22 = two norms of 4, two sums of bias, dropout and residual of 7 (one is a mask byte)
//   query, key and value: 4 for the bias and the transposition
//   activation function with its bias: 2 for each input, 2 for the output
// Backward:
//   hidden: 42 = two norms of 10, two dropouts of 5, two sums of gradients of 6
//   query, key and value: 6 = 4 for the transposition, 2 for the gradient of the bias
//   activation function: 2 for each input, 2 for the gradient of the output, and for each input 2
//   for its gradient and 2 for the gradient of its bias
// Without sequence parallelism, every tensor rank does the whole work on `hidden`.
Passes stream_passes(const ParallelConfig& parallel, const LayerSizes& s, const Hardware& gpu) {
    const double share = parallel.sequence_parallel ? s.tp : 1;
    const double forward = 22 * s.hidden / share + 4 * s.qkv + (2 * s.gates + 2) * s.ffn;
    const double backward = 42 * s.hidden / share + 6 * s.qkv + (6 * s.gates + 2) * s.ffn;
    Passes passes;
    passes.forward.stream_s = stream_seconds(gpu, s.rows * s.element / 2 * forward);
    passes.backward.stream_s = stream_seconds(gpu, s.rows * s.element / 2 * backward);
    return passes;
}

// Returns the seconds that a pass communicates: two all-reduces of [rows, hidden] (arXiv
// 1909.08053, section 3), or with sequence parallelism two pairs of reduce-scatter and all-gather
// (arXiv 2205.05198, section 4.2.2).
double tensor_s(const ParallelConfig& parallel, const LayerSizes& s, const Hardware& gpu) {
    const double bytes = s.rows * s.hidden * s.element;
    const RankGroup group{.n = s.tp, .per_node = std::min(s.tp, as_double(gpu.gpus_per_node))};
    if (parallel.sequence_parallel) return 4 * ring_seconds(gpu, group, bytes);
    return 2 * all_reduce_seconds(gpu, group, bytes);
}

void wait_for_host(PassTime& pass, double host_s) {
    pass.host_s = std::max(0.0, host_s - pass.total());
}

}  // namespace

PassTime& PassTime::operator+=(const PassTime& other) {
    products_s += other.products_s;
    attention_s += other.attention_s;
    stream_s += other.stream_s;
    tensor_s += other.tensor_s;
    host_s += other.host_s;
    return *this;
}

PassTime PassTime::operator*(double n) const {
    return {products_s * n, attention_s * n, stream_s * n, tensor_s * n, host_s * n};
}

Passes& Passes::operator+=(const Passes& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
}

Passes layer_passes(const ModelConfig& model, const LayerConfig& layer,
                    const ParallelConfig& parallel, const StepBatch& batch, const Hardware& gpu,
                    const TrainingProgram& trainer) {
    const LayerSizes s = layer_sizes_of(model, layer, parallel, batch);
    Passes passes = attention_passes(model, layer.window, s, batch, gpu, trainer.fused_attention);
    passes += stream_passes(parallel, s, gpu);
    passes.forward.products_s = products_s(s, gpu, batch.dtype);
    passes.backward.products_s = 2 * passes.forward.products_s;
    const double weights = s.hidden * (s.qkv + s.heads + (s.gates + 1) * s.ffn);
    const double accumulation_s =
        stream_seconds(gpu, trainer.accumulation_bytes(batch.dtype) * weights);
    passes.forward.tensor_s = passes.backward.tensor_s = tensor_s(parallel, s, gpu);
    const PassTime forward = passes.forward;
    double backward_host_s = 2 * trainer.host_pass_s;
    if (parallel.recompute.granularity == Recompute::Granularity::full) {
        passes.backward += forward;
        backward_host_s += trainer.host_pass_s;
    } else if (parallel.recompute.granularity == Recompute::Granularity::selective) {
        // Unfused attention recomputes scores and probabilities. With fused attention, the outputs
        // of norms and activation functions are recomputed (spec::Recompute).
        if (trainer.fused_attention) {
            passes.backward.stream_s += forward.stream_s / 2;
        } else {
            passes.backward.attention_s += forward.attention_s;
        }
    }
    passes.backward.stream_s += accumulation_s;
    wait_for_host(passes.forward, trainer.host_pass_s);
    wait_for_host(passes.backward, backward_host_s);
    return passes;
}

// The forward pass of the embedding reads rows of the table and writes the output, with a dropout
// mask. The backward pass adds fp32 gradients.
Passes embedding_passes(const ModelConfig& model, const StepBatch& batch, const Hardware& gpu) {
    const double elements =
        as_double(batch.micro_batch) * as_double(batch.seq_length) * as_double(model.hidden);
    Passes passes;
    passes.forward.stream_s = stream_seconds(gpu, 5 * elements);
    passes.backward.stream_s = stream_seconds(gpu, 10 * elements);
    return passes;
}

// The head has the product with the output projection. The loss reads and writes 12 bytes for each
// logit: 2-byte logits and fp32 copies. Backward writes the 2-byte gradient of the logits and reads
// it for both products.
Passes head_passes(const ModelConfig& model, const ParallelConfig& parallel, const StepBatch& batch,
                   const Hardware& gpu) {
    const double rows = as_double(batch.micro_batch) * as_double(batch.seq_length);
    const double vocab = as_double(padded_vocab(model, parallel)) / as_double(parallel.tp);
    Passes passes;
    passes.forward.products_s =
        product_seconds(gpu, batch.dtype, rows, vocab, as_double(model.hidden));
    passes.backward.products_s = 2 * passes.forward.products_s;
    passes.forward.stream_s = stream_seconds(gpu, 12 * rows * vocab);
    passes.backward.stream_s = stream_seconds(gpu, 6 * rows * vocab);
    return passes;
}

}  // namespace lm::cost
