// SPDX-License-Identifier: Apache-2.0
#include "model/head.hpp"

#include <algorithm>

namespace lm::model {

// A chunk of S rows of the micro-batch, and the memory that they use.
struct Head::Rows {
    i64 begin = 0;
    i64 end = 0;
    View x;          // [S, C] compute
    View targets;    // [S] int32
    View loss_mask;  // [S] fp32
    View losses;     // [S] fp32
    View logits;     // [S, V] compute
    // row_sum and the members after it are adjacent in Scratch::row_stats, so that one all-reduce
    // sums row_sum and target_logit (as `sums`).
    View row_sum;       // [S] fp32
    View target_logit;  // [S] fp32
    View sums;          // [2S] fp32: row_sum and target_logit
    View row_max;       // [S] fp32
    View local_max;     // [S] fp32
};

Head::Rows Head::rows_of(const Pass& pass, const View& x, const HeadActivations& act,
                         i64 begin) const {
    const Scratch& scratch = pass.setup.scratch;
    const i64 end = std::min(begin + scratch.logits[0], x[0]);
    const i64 n = end - begin;
    const View stats = scratch.row_stats.flat();
    return {.begin = begin,
            .end = end,
            .x = x.rows(begin, end),
            .targets = pass.inputs.targets.flat().rows(begin, end),
            .loss_mask = pass.inputs.loss_mask.flat().rows(begin, end),
            .losses = act.losses.flat().rows(begin, end),
            .logits = scratch.logits.rows(0, n),
            .row_sum = stats.rows(0, n),
            .target_logit = stats.rows(n, 2 * n),
            .sums = stats.rows(0, 2 * n),
            .row_max = stats.rows(2 * n, 3 * n),
            .local_max = stats.rows(3 * n, 4 * n)};
}

// Computes the logits, their statistics over the whole vocabulary, and the losses.
void Head::forward_rows(const Pass& pass, const Rows& rows) const {
    const TensorParallel& tensor = pass.setup.tensor;
    logits(pass, rows.x, rows.logits);
    device::cross_entropy_stats(pass.context, {.logits = rows.logits,
                                               .targets = rows.targets,
                                               .vocab_start = pass.setup.share.vocab_start,
                                               .n_valid = pass.setup.share.n_vocab,
                                               .row_max = rows.row_max,
                                               .row_sum = rows.row_sum,
                                               .target_logit = rows.target_logit});
    if (tensor.several()) {
        device::cast(pass.context, {.x = rows.row_max, .y = rows.local_max});
        tensor.group().all_reduce(rows.row_max, comm::Reduction::max);
        device::cross_entropy_rescale(
            pass.context,
            {.local_max = rows.local_max, .row_max = rows.row_max, .row_sum = rows.row_sum});
        tensor.all_sum(rows.sums);
    }
    device::cross_entropy_loss(pass.context, {.row_max = rows.row_max,
                                              .row_sum = rows.row_sum,
                                              .target_logit = rows.target_logit,
                                              .losses = rows.losses});
}

// Computes the losses, and the gradients of the logits in the memory of the logits.
void Head::gradient_rows(const Pass& pass, const Rows& rows, double grad_scale) const {
    const double scale = grad_scale * pass.setup.config.logit_scale;
    if (!pass.setup.tensor.several()) {
        logits(pass, rows.x, rows.logits);
        device::cross_entropy(pass.context, {.logits = rows.logits,
                                             .targets = rows.targets,
                                             .n_valid = pass.setup.share.n_vocab,
                                             .weight = rows.loss_mask,
                                             .grad_scale = scale,
                                             .row_max = rows.row_max,
                                             .row_sum = rows.row_sum,
                                             .target_logit = rows.target_logit,
                                             .losses = rows.losses});
        return;
    }
    forward_rows(pass, rows);
    device::cross_entropy_backward(pass.context, {.logits = rows.logits,
                                                  .targets = rows.targets,
                                                  .vocab_start = pass.setup.share.vocab_start,
                                                  .n_valid = pass.setup.share.n_vocab,
                                                  .row_max = rows.row_max,
                                                  .row_sum = rows.row_sum,
                                                  .weight = rows.loss_mask,
                                                  .grad_scale = scale});
}

void Head::loss(const Pass& pass, const View& x, const HeadActivations& act) const {
    const View all = pass.setup.tensor.gather(x, pass.setup.scratch.gathered);
    for (i64 begin = 0; begin < all[0];) {
        const Rows rows = rows_of(pass, all, act, begin);
        forward_rows(pass, rows);
        begin = rows.end;
    }
    add_to_step_loss(pass, act);
}

void Head::loss_and_gradient(const Pass& pass, const View& x, const HeadActivations& act,
                             double grad_scale) const {
    const TensorParallel& tensor = pass.setup.tensor;
    const Scratch& scratch = pass.setup.scratch;
    const View all = tensor.gather(x, scratch.gathered);
    // When rows are divided over tensor ranks, dx is a sum over the ranks. This rank's addend is
    // written to the memory of `branch`, which the head's backward pass does not use otherwise.
    const View dx = tensor.sequence_parallel() ? scratch.branch : act.dx;
    bool accumulate = pass.accumulate;
    for (i64 begin = 0; begin < all[0];) {
        const Rows rows = rows_of(pass, all, act, begin);
        gradient_rows(pass, rows, grad_scale);
        const View& dlogits = rows.logits;  // overwrites the logits
        device::linear_backward_input(
            pass.context,
            {.dy = dlogits, .w = weight_.weight, .dx = dx.rows(rows.begin, rows.end)});
        device::linear_backward_weight(
            pass.context,
            {.dy = dlogits, .x = rows.x, .dw = grad_.weight, .accumulate = accumulate});
        accumulate = true;
        begin = rows.end;
    }
    tensor.sum(dx, act.dx);
    add_to_step_loss(pass, act);
}

void Head::add_to_step_loss(const Pass& pass, const HeadActivations& act) const {
    device::weighted_sum(pass.context,
                         {.x = act.losses.flat(),
                          .weight = pass.inputs.loss_mask.flat(),
                          .out = pass.setup.scratch.step_sums.rows(loss_sum, loss_sum + 1),
                          .accumulate = true});
}

void Head::logits(const Pass& pass, const View& x, const View& out) const {
    device::linear_forward(pass.context, {.x = x, .w = weight_.weight, .y = out});
    if (const double scale = pass.setup.config.logit_scale; scale != 1)
        device::scale(pass.context, {.x = out, .factor = scale});
}

}  // namespace lm::model
