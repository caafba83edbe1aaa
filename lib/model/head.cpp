// SPDX-License-Identifier: Apache-2.0
// The output projection and the cross-entropy, a chunk of rows at a time: no rank ever holds all
// logits. Each tensor rank computes its share of the vocabulary; three numbers of each row travel.
#include <algorithm>

#include "base/error.hpp"
#include "model/chunk.hpp"

namespace lm::model {
namespace {

// The statistics of `n` rows, adjacent in `buffer`.
struct RowStats {
    RowStats(const View& buffer, i64 n)
        : row_sum(buffer.flat().rows(0, n)),
          target_logit(buffer.flat().rows(n, 2 * n)),
          sums(buffer.flat().rows(0, 2 * n)),
          row_max(buffer.flat().rows(2 * n, 3 * n)),
          local_max(buffer.flat().rows(3 * n, 4 * n)) {}
    View row_sum, target_logit;
    View sums;  // both
    View row_max, local_max;
};

// From the statistics of each rank's share to those of the whole rows.
void combine(device::Context& context, const TensorParallel& tensor, const RowStats& stats) {
    if (!tensor.several()) return;
    device::cast(context, {.x = stats.row_max, .y = stats.local_max});
    tensor.group().all_reduce(stats.row_max, comm::Reduction::max);
    device::cross_entropy_rescale(
        context,
        {.local_max = stats.local_max, .row_max = stats.row_max, .row_sum = stats.row_sum});
    tensor.all_sum(stats.sums);
}

}  // namespace

void GptChunk::loss(device::Context& context, const MicroBatch& micro_batch, double grad_scale) {
    const Pass pass = pass_of(context, micro_batch);
    const MicroBatchActivations& act = pass.act;
    const View x = tensor_.gather(act.final_norm, shared_.gathered);
    // Gradient of x, of this rank's share of the vocabulary; the branch's place is free.
    const View dx = tensor_.cuts_rows() ? shared_.branch : act.dfinal;
    const View targets = act.targets.flat();
    const View weight = act.loss_weight.flat();
    const View losses = act.losses.flat();
    bool accumulate = pass.accumulate;
    const i64 chunk = shared_.logits[0];
    for (i64 begin = 0; begin < x[0]; begin += chunk) {
        const i64 end = std::min(begin + chunk, x[0]);
        const auto rows = [begin, end](const View& view) { return view.rows(begin, end); };
        const View logits = shared_.logits.rows(0, end - begin);
        const RowStats stats(shared_.row_stats, end - begin);
        device::linear_forward(context, {.x = rows(x), .w = weight_.head, .y = logits});
        device::cross_entropy_stats(context, {.logits = logits,
                                              .targets = rows(targets),
                                              .vocab_start = share_.vocab_start,
                                              .n_valid = share_.n_vocab,
                                              .row_max = stats.row_max,
                                              .row_sum = stats.row_sum,
                                              .target_logit = stats.target_logit});
        combine(context, tensor_, stats);
        device::cross_entropy_loss(context, {.row_max = stats.row_max,
                                             .row_sum = stats.row_sum,
                                             .target_logit = stats.target_logit,
                                             .losses = rows(losses)});
        if (!pass.training) continue;
        device::cross_entropy_backward(context, {.logits = logits,
                                                 .targets = rows(targets),
                                                 .vocab_start = share_.vocab_start,
                                                 .n_valid = share_.n_vocab,
                                                 .row_max = stats.row_max,
                                                 .row_sum = stats.row_sum,
                                                 .weight = rows(weight),
                                                 .grad_scale = grad_scale});
        device::linear_backward_input(context, {.dy = logits, .w = weight_.head, .dx = rows(dx)});
        device::linear_backward_weight(
            context, {.dy = logits, .x = rows(x), .dw = grad_.head, .accumulate = accumulate});
        accumulate = true;
    }
    if (pass.training) tensor_.sum(dx, act.dfinal);
    device::weighted_sum(context, {.x = losses,
                                   .weight = weight,
                                   .out = shared_.step_sums.rows(loss_sum, loss_sum + 1),
                                   .accumulate = true});
}

void GptChunk::logits(device::Context& context, int slot, i64 begin, i64 end, const View& out) {
    LM_CHECK(!tensor_.cuts_rows(), "logits of rows that are cut over ranks");
    device::linear_forward(
        context, {.x = this->slot(slot).final_norm.rows(begin, end), .w = weight_.head, .y = out});
}

}  // namespace lm::model
