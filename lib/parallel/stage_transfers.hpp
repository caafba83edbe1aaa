// SPDX-License-Identifier: Apache-2.0
// The point-to-point messages of one pipeline stage: activations to the next stage, gradients to
// the previous one. Only moves bytes; the trainer computes between the calls, in the order of
// spec::pipeline_actions (train/trainer.cpp, Trainer::run_schedule).
//
// Messages overlap with compute: a receive is posted as soon as its buffer is free, which is long
// before its data is needed, and a send is waited for only when its buffer is needed again.
#pragma once

#include <span>
#include <vector>

#include "parallel/grid.hpp"
#include "spec/pipeline_schedule.hpp"

namespace lm::parallel {

// Where one micro-batch in flight enters and leaves a chunk. The gradient of the input is sent from
// where the input was received, the gradient of the output is received where the output was sent
// from.
struct StageBuffers {
    device::View input;   // [R, C] compute (model/pass.hpp); not used by the first virtual stage
    device::View output;  // [R, C] compute; not used by the last virtual stage
};

class StageTransfers {
  public:
    // `buffers`: of each slot of each chunk. Micro-batch i of a chunk uses slot i % slots. `grid`
    // outlives this.
    StageTransfers(Grid& grid, const std::vector<std::vector<StageBuffers>>& buffers);

    int slot_of(i64 chunk, i64 micro_batch) const;

    // Begins a pass over `actions` and posts the first receives. Allocates when there are more
    // receives than in any pass before.
    void begin(std::span<const spec::PipelineAction> actions);

    // The micro-batch's input, or the gradient of its output, has arrived for everything that is
    // enqueued on the device after the call.
    void receive_input(const spec::PipelineAction& action);
    void receive_gradient(const spec::PipelineAction& action);
    // Starts to send the chunk's output, or the gradient of its input, stream-ordered after the
    // compute that was enqueued before.
    void send_output(const spec::PipelineAction& action);
    void send_gradient(const spec::PipelineAction& action);

    // Before a forward pass writes the output: waits for the send of the micro-batch that used the
    // slot before. In a step there was a backward pass in between; in an evaluation there was not.
    void acquire_output(const spec::PipelineAction& action);
    // After a forward pass that no backward pass follows: the input is not read again.
    void release_input(const spec::PipelineAction& action);

    // Posts the receives whose buffers are free now. Called after each action.
    void post_receives();
    // Waits for all sends. Ends a pass.
    void finish_sends();

  private:
    struct Slot {
        StageBuffers buffers;
        i64 input_of = -1;  // the micro-batch whose input is here or is being received; or none
        i64 output_sent_of = -1;  // the micro-batch whose output was sent and whose gradient is not
                                  // being received yet; or none
        comm::Work input, output_sent, gradient, gradient_sent;
    };
    // The receives of one direction, in the order of the pass.
    struct Receives {
        std::vector<spec::PipelineAction> all;
        size_t n_posted = 0;
        size_t n_needed = 0;  // the stage waits for the first n_needed
    };

    void post_inputs();
    void post_gradients();
    Slot& slot(const spec::PipelineAction& action);
    int peer(spec::PipelineOp op) const;

    Grid& grid_;
    spec::PipelineShape shape_;
    std::vector<std::vector<Slot>> slots_;  // [chunk][slot]
    Receives inputs_, gradients_;
};

}  // namespace lm::parallel
