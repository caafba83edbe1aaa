// SPDX-License-Identifier: Apache-2.0
#include "spec/pipeline_schedule.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::spec {
namespace {

// Returns the k-th forward pass. The order is the same on every stage. With several chunks, a stage
// computes n_stages micro-batches on chunk 0, then the same micro-batches on chunk 1, and so on.
PipelineAction nth_forward(const PipelineShape& shape, i64 k) {
    const i64 group = shape.n_chunks == 1 ? 1 : shape.n_stages;
    const i64 in_round = k % (group * shape.n_chunks);
    return {.op = PipelineOp::forward,
            .chunk = in_round / group,
            .micro_batch = k / (group * shape.n_chunks) * group + in_round % group};
}

// Returns the k-th backward pass. The micro-batches have the order of the forward passes, the
// chunks the reverse order.
PipelineAction nth_backward(const PipelineShape& shape, i64 k) {
    PipelineAction action = nth_forward(shape, k);
    action.op = PipelineOp::backward;
    action.chunk = shape.n_chunks - 1 - action.chunk;
    return action;
}

// Returns the number of forward passes of a stage before its first forward and backward pair. These
// passes give every later stage its first micro-batch. The number for the interleaved schedule is
// from Megatron's schedules.py, get_pp_rank_microbatches.
i64 n_warmup(const PipelineShape& shape, i64 stage) {
    const i64 later_stages = shape.n_stages - 1 - stage;
    const i64 wanted = shape.n_chunks == 1
                           ? later_stages
                           : 2 * later_stages + (shape.n_chunks - 1) * shape.n_stages;
    return std::min(wanted, shape.n_micro_batches * shape.n_chunks);
}

// Returns the passes of `stage`. The interleaved schedule needs a multiple of n_stages
// micro-batches. So this function rounds their number up, and removes the passes of the added
// micro-batches from the result. The removal cannot cause a deadlock, because it only removes
// messages.
std::vector<PipelineAction> compute_order(PipelineShape shape, i64 stage) {
    const i64 n_existing = shape.n_micro_batches;
    if (shape.n_chunks > 1) shape.n_micro_batches = round_up(n_existing, shape.n_stages);
    const i64 total = shape.n_micro_batches * shape.n_chunks;
    const i64 warmup = n_warmup(shape, stage);
    std::vector<PipelineAction> order;
    order.reserve(static_cast<size_t>(2 * total));
    for (i64 k = 0; k < warmup; ++k) order.push_back(nth_forward(shape, k));
    for (i64 k = warmup; k < total; ++k) {
        order.push_back(nth_forward(shape, k));
        order.push_back(nth_backward(shape, k - warmup));
    }
    for (i64 k = total - warmup; k < total; ++k) order.push_back(nth_backward(shape, k));
    std::erase_if(order, [&](const PipelineAction& a) { return a.micro_batch >= n_existing; });
    return order;
}

}  // namespace

void check_pipeline(const PipelineShape& shape) {
    if (shape.n_chunks == 1) return;
    constexpr auto flag = "--num-layers-per-virtual-pipeline-stage";
    if (shape.n_stages < 2) {
        usage_error(flag, "needs --pipeline-model-parallel-size of at least 2");
    }
}

namespace {

// Adds a receive before each pass and a send after it, where the pass needs them.
std::vector<PipelineAction> with_messages(const PipelineShape& shape, i64 stage,
                                          const std::vector<PipelineAction>& order) {
    std::vector<PipelineAction> actions;
    for (const PipelineAction& work : order) {
        const auto add = [&](PipelineOp op) {
            actions.push_back({op, work.chunk, work.micro_batch});
        };
        const bool enters = shape.enters(stage, work.chunk);
        const bool leaves = shape.leaves(stage, work.chunk);
        if (work.op == PipelineOp::forward) {
            if (!enters) add(PipelineOp::receive_forward);
            add(PipelineOp::forward);
            if (!leaves) add(PipelineOp::send_forward);
        } else {
            if (!leaves) add(PipelineOp::receive_backward);
            add(PipelineOp::backward);
            if (!enters) add(PipelineOp::send_backward);
        }
    }
    return actions;
}

}  // namespace

std::vector<PipelineAction> pipeline_actions(const PipelineShape& shape, i64 stage) {
    return with_messages(shape, stage, compute_order(shape, stage));
}

std::vector<PipelineAction> pipeline_forward_actions(const PipelineShape& shape, i64 stage) {
    std::vector<PipelineAction> order;
    for (i64 first = 0; first < shape.n_micro_batches; first += shape.n_stages) {
        const i64 end = std::min(first + shape.n_stages, shape.n_micro_batches);
        for (i64 chunk = 0; chunk < shape.n_chunks; ++chunk) {
            for (i64 i = first; i < end; ++i) order.push_back({PipelineOp::forward, chunk, i});
        }
    }
    return with_messages(shape, stage, order);
}

i64 pipeline_peer(const PipelineShape& shape, i64 stage, PipelineOp op) {
    const bool before = op == PipelineOp::receive_forward || op == PipelineOp::send_backward;
    return (stage + (before ? shape.n_stages - 1 : 1)) % shape.n_stages;
}

}  // namespace lm::spec
