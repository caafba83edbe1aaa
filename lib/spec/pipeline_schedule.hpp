// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as pure functions: the actions of each stage during one step, in order. The
// schedule is 1F1B, or interleaved 1F1B when a stage has several chunks of layers (Narayanan et al.
// 2021, "Efficient large-scale language model training on GPU clusters using Megatron-LM", arXiv
// 2104.04473, section 2.2). The trainer executes these lists; tests and estimates run them in
// virtual time.
//
// Why 1F1B, and not a schedule that splits backward (zero bubble, Qi et al. 2024). The gradients of
// the weights can be computed later than those of the inputs, and then they fill the bubble. But
// until then each product keeps its input and the gradient of its output, and 1F1B's bound on
// activations is gone or bought with half of the gain. Backward of a layer would no longer end with
// complete gradients, on which the reduction during backward waits, and operations that compute
// both in one pass over the data (norms, biases, embedding) would read it twice. The bubble of 1F1B
// is (stages - 1) / micro-batches of a step, 11 % for 8 stages and 64 micro-batches; four chunks a
// stage make it 3 % for more messages. What is left does not pay for a second backward.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::spec {

// Chunk c of stage s is virtual stage c * n_stages + s. A micro-batch passes the virtual stages in
// ascending order, its gradient in descending order.
struct PipelineShape {
    i64 n_stages = 1;
    i64 n_chunks = 1;  // chunks on each stage; more than one: interleaved
    i64 n_micro_batches = 1;

    // Returns true for the first virtual stage, which reads the tokens.
    bool enters(i64 stage, i64 chunk) const { return stage == 0 && chunk == 0; }
    // Returns true for the last virtual stage, which computes the loss.
    bool leaves(i64 stage, i64 chunk) const {
        return stage == n_stages - 1 && chunk == n_chunks - 1;
    }
};

// Throws Error(usage) naming the flag when the interleaved schedule has fewer than two stages.
void check_pipeline(const PipelineShape& shape);

enum class PipelineOp {
    receive_forward,  // the chunk's input activations, from the previous virtual stage
    forward,
    send_forward,      // to the next virtual stage
    receive_backward,  // the gradient of the chunk's output, from the next virtual stage
    backward,
    send_backward  // to the previous virtual stage
};

struct PipelineAction {
    PipelineOp op = PipelineOp::forward;
    i64 chunk = 0;
    i64 micro_batch = 0;
    friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

// Returns all actions of `stage` during a step. A receive is listed right before the pass that
// reads the message, a send right after the pass that writes it. The caller may start receives
// earlier and finish sends later. Activations and gradients use separate channels. On each channel
// between two stages, messages are received in the order in which they are sent.
std::vector<PipelineAction> pipeline_actions(const PipelineShape& shape, i64 stage);

// Returns the actions of `stage` for an evaluation, which has forward passes only. n_micro_batches
// may be any number.
std::vector<PipelineAction> pipeline_forward_actions(const PipelineShape& shape, i64 stage);

// Returns the stage that is the peer of `stage` in a send or receive.
i64 pipeline_peer(const PipelineShape& shape, i64 stage, PipelineOp op);

}  // namespace lm::spec
