// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as pure functions: what each stage computes, sends and receives during one
// step, in order. 1F1B and, with several chunks of layers on each stage, interleaved 1F1B
// (Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using
// Megatron-LM", arXiv 2104.04473, section 2.2). The trainer follows these lists; tests and
// estimates run them in virtual time.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::spec {

// Chunk c of stage s is virtual stage c * stages + s: a micro-batch passes the virtual stages in
// ascending order and its gradient in descending order.
struct PipelineShape {
    i64 n_stages = 1;
    i64 n_chunks = 1;  // on each stage; more than one: interleaved
    i64 n_micro_batches = 1;

    bool enters(i64 stage, i64 chunk) const { return stage == 0 && chunk == 0; }
    bool leaves(i64 stage, i64 chunk) const {
        return stage == n_stages - 1 && chunk == n_chunks - 1;
    }
};

// Throws Error(usage) naming the flags: the interleaved schedule needs more than one stage, and
// micro-batches in whole groups of the number of stages.
void check_pipeline(const PipelineShape& shape);

enum class PipelineOp {
    receive_forward,  // the chunk's input activations, from the virtual stage before
    forward,
    send_forward,      // to the virtual stage behind
    receive_backward,  // the gradient of the chunk's output, from the virtual stage behind
    backward,
    send_backward  // to the virtual stage before
};

struct PipelineAction {
    PipelineOp op = PipelineOp::forward;
    i64 chunk = 0;
    i64 micro_batch = 0;
    friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

// All actions of `stage` during a step. A receive stands right before what needs it and a send
// right behind what made it: both may be started earlier or finished later. Activations and
// gradients travel on channels of their own; on each channel between two stages messages are
// received in the order in which they are sent.
std::vector<PipelineAction> pipeline_actions(const PipelineShape& shape, i64 stage);

// The forward passes alone, for evaluation; any number of micro-batches.
std::vector<PipelineAction> pipeline_forward_actions(const PipelineShape& shape, i64 stage);

// The stage on the other side of a send or receive of `stage`.
i64 pipeline_peer(const PipelineShape& shape, i64 stage, PipelineOp op);

}  // namespace lm::spec
