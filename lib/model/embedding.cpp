// SPDX-License-Identifier: Apache-2.0
// The embedding: words, normalized in BLOOM's way where the model asks for it, and a learned
// position table. Each tensor rank has its part of the words.
#include "model/chunk.hpp"
#include "model/norm.hpp"

namespace lm::model {

void GptChunk::embedding_forward(const Pass& pass) {
    if (config_.embedding_norm) return embedding_norm_forward(pass);
    // The positions are added once.
    const bool positions = weight_.position && tensor_.first();
    device::embedding_forward(pass.context,
                              {.tokens = pass.act.tokens.flat(),
                               .table = weight_.word,
                               .vocab_start = share_.vocab_start,
                               .positions = positions ? pass.act.positions.flat() : View{},
                               .position_table = positions ? weight_.position : View{},
                               .out = shared_.branch});
    tensor_.sum(shared_.branch);
}

// Only the words are normalized; positions join behind the norm (as in Megatron's
// VocabParallelEmbedding with --embed-layernorm).
void GptChunk::embedding_norm_forward(const Pass& pass) {
    const View words = tensor_.cuts_rows() ? shared_.branch : pass.act.embedding;
    device::embedding_forward(pass.context, {.tokens = pass.act.tokens.flat(),
                                             .table = weight_.word,
                                             .vocab_start = share_.vocab_start,
                                             .out = words});
    tensor_.sum(words, pass.act.embedding);
    const View normed = tensor_.own_rows(shared_.branch);
    device::residual_norm_forward(pass.context, {.norm = norm_of(config_.normalization),
                                                 .eps = config_.norm_eps,
                                                 .residual = pass.act.embedding,
                                                 .weight = weight_.embedding_norm_weight,
                                                 .bias = weight_.embedding_norm_bias,
                                                 .y = normed,
                                                 .mean = pass.act.embedding_norm_mean,
                                                 .rstd = pass.act.embedding_norm_rstd});
    if (!weight_.position) return;
    // The first block's stream is about to be written: until then its place is free.
    const View positions = pass.act.layers.front().residual;
    device::embedding_forward(pass.context, {.tokens = tensor_.own_rows(pass.act.positions.flat()),
                                             .table = weight_.position,
                                             .out = positions});
    device::residual_norm_forward(pass.context,
                                  {.branch = positions, .residual = normed, .sum = normed});
}

void GptChunk::embedding_backward(const Pass& pass) {
    View dwords = branch_gradient();
    if (config_.embedding_norm) {
        if (grad_.position) {
            device::embedding_backward(pass.context,
                                       {.tokens = pass.act.positions.flat(),
                                        .dout = tensor_.gather(dwords, shared_.gathered),
                                        .dtable = grad_.position});
        }
        dwords = embedding_norm_backward(pass, dwords);
    }
    const bool positions = grad_.position && !config_.embedding_norm;
    device::embedding_backward(pass.context,
                               {.tokens = pass.act.tokens.flat(),
                                .dout = tensor_.gather(dwords, shared_.gathered),
                                .dtable = grad_.word,
                                .vocab_start = share_.vocab_start,
                                .positions = positions ? pass.act.positions.flat() : View{},
                                .dposition_table = positions ? grad_.position : View{}});
}

View GptChunk::embedding_norm_backward(const Pass& pass, const View& dy) {
    const View dwords = tensor_.own_rows(shared_.dnorm);
    device::residual_norm_backward(pass.context, {.norm = norm_of(config_.normalization),
                                                  .dy = dy,
                                                  .sum = pass.act.embedding,
                                                  .weight = weight_.embedding_norm_weight,
                                                  .mean = pass.act.embedding_norm_mean,
                                                  .rstd = pass.act.embedding_norm_rstd,
                                                  .dsum = dwords,
                                                  .dweight = grad_.embedding_norm_weight,
                                                  .dbias = grad_.embedding_norm_bias});
    return dwords;
}

}  // namespace lm::model
