// SPDX-License-Identifier: Apache-2.0
#include "model/embedding.hpp"

namespace lm::model {

View Embedding::forward(const Pass& pass, const EmbeddingActivations& act,
                        const View& scratch_rows) const {
    if (pass.setup.config.embedding_norm) return forward_normalized(pass, act, scratch_rows);
    const TensorParallel& tensor = pass.setup.tensor;
    const View& branch = pass.setup.scratch.branch;
    // The results of the tensor ranks are summed, so only the first rank adds the position rows.
    const bool positions = weight_.position && tensor.first();
    device::embedding_forward(pass.context,
                              {.tokens = pass.inputs.tokens.flat(),
                               .table = weight_.word,
                               .vocab_start = pass.setup.share.vocab_start,
                               .positions = positions ? pass.inputs.positions.flat() : View{},
                               .position_table = positions ? weight_.position : View{},
                               .out = branch});
    return tensor.sum(branch);
}

// Normalizes the word rows and then adds the position rows, as Megatron-DeepSpeed's
// VocabParallelEmbedding does with --embed-layernorm (BLOOM).
View Embedding::forward_normalized(const Pass& pass, const EmbeddingActivations& act,
                                   const View& scratch_rows) const {
    const TensorParallel& tensor = pass.setup.tensor;
    const View& branch = pass.setup.scratch.branch;
    // act.words has memory for this rank's rows only. With sequence parallelism, each rank computes
    // its part of the sum for all rows, so it writes that part to the branch's memory first.
    const View words = tensor.sequence_parallel() ? branch : act.words;
    device::embedding_forward(pass.context, {.tokens = pass.inputs.tokens.flat(),
                                             .table = weight_.word,
                                             .vocab_start = pass.setup.share.vocab_start,
                                             .out = words});
    tensor.sum(words, act.words);
    const View normed = tensor.own_rows(branch);
    norm_.normalize(pass, {.stream = act.words, .y = normed, .mean = act.mean, .rstd = act.rstd});
    if (!weight_.position) return normed;
    device::embedding_forward(pass.context,
                              {.tokens = tensor.own_rows(pass.inputs.positions.flat()),
                               .table = weight_.position,
                               .out = scratch_rows});
    device::residual_norm_forward(pass.context,
                                  {.branch = scratch_rows, .residual = normed, .sum = normed});
    return normed;
}

void Embedding::backward(const Pass& pass, const View& dbranch,
                         const EmbeddingActivations& act) const {
    const TensorParallel& tensor = pass.setup.tensor;
    const Scratch& scratch = pass.setup.scratch;
    const bool normalized = pass.setup.config.embedding_norm;
    View dwords = dbranch;
    if (normalized) {
        if (grad_.position) {
            device::embedding_backward(pass.context,
                                       {.tokens = pass.inputs.positions.flat(),
                                        .token_order = pass.inputs.position_order,
                                        .dout = tensor.gather(dbranch, scratch.gathered),
                                        .dtable = grad_.position});
        }
        dwords = norm_.backward(pass, {.dy = dbranch, .out = tensor.own_rows(scratch.dnorm)},
                                {.stream = act.words, .mean = act.mean, .rstd = act.rstd});
    }
    const bool positions = grad_.position && !normalized;
    device::embedding_backward(pass.context,
                               {.tokens = pass.inputs.tokens.flat(),
                                .token_order = pass.inputs.token_order,
                                .dout = tensor.gather(dwords, scratch.gathered),
                                .dtable = grad_.word,
                                .vocab_start = pass.setup.share.vocab_start,
                                .positions = positions ? pass.inputs.positions.flat() : View{},
                                .position_order = positions ? pass.inputs.position_order : View{},
                                .dposition_table = positions ? grad_.position : View{}});
}

void Embedding::zero_gradients(const Pass& pass, bool word) const {
    if (word) device::fill(pass.context, {.x = grad_.word, .value = 0});
    if (grad_.position) device::fill(pass.context, {.x = grad_.position, .value = 0});
}

}  // namespace lm::model
