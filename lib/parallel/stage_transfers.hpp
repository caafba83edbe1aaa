// SPDX-License-Identifier: Apache-2.0
// The point-to-point messages of one pipeline stage: activations to the next stage, gradients to
// the previous one. StageTransfers only moves bytes. Between its calls the trainer computes, in the
// order of spec::pipeline_actions (train/step/trainer.cpp, Trainer::run_schedule).
//
// Messages overlap with compute: a receive is posted as soon as its buffer is free, which is long
// before its data is needed, and a send is waited for only when its buffer is needed again.
#pragma once

#include <span>
#include <vector>

#include "parallel/grid.hpp"
#include "spec/pipeline_schedule.hpp"

namespace lm::parallel {

// The memory through which one micro-batch in flight enters and leaves a chunk. `input` is
// received; the gradient of the input is later sent from the same memory. `output` is sent; the
// gradient of the output is later received into the same memory.
struct StageBuffers {
    device::View input;   // [R, C] compute (model/pass.hpp); not used by the first virtual stage
    device::View output;  // [R, C] compute; not used by the last virtual stage
};

class StageTransfers {
  public:
    // `buffers` is [chunk][slot]. Micro-batch i of a chunk uses slot i % slots. `grid` must outlive
    // this object.
    StageTransfers(Grid& grid, const std::vector<std::vector<StageBuffers>>& buffers);

    int slot_of(i64 chunk, i64 micro_batch) const;

    // Begins a pass over `actions` and posts the first receives. Allocates when there are more
    // receives than in any earlier pass.
    void begin(std::span<const spec::PipelineAction> actions);

    // receive_input() waits for the micro-batch's input, receive_gradient() for the gradient of its
    // output. Work that is enqueued on the device after the call may read the received data.
    void receive_input(const spec::PipelineAction& action);
    void receive_gradient(const spec::PipelineAction& action);
    // send_output() starts to send the chunk's output, send_gradient() the gradient of its input.
    // Both sends are stream-ordered after the compute that was enqueued before the call.
    void send_output(const spec::PipelineAction& action);
    void send_gradient(const spec::PipelineAction& action);

    // Call this before a forward pass writes the output. Waits until the output of the slot's
    // previous micro-batch is sent. In a training step this send is already finished, because the
    // gradient of that output was received into the same memory. In an evaluation the send may be
    // pending.
    void acquire_output(const spec::PipelineAction& action);
    // Call this after a forward pass that has no backward pass. The input is not read again, so the
    // next input may be received into its memory.
    void release_input(const spec::PipelineAction& action);

    // Posts the receives whose buffers are free now. Call it after each action.
    void post_receives();
    // Waits for all sends, and ends the pass.
    void finish_sends();

  private:
    struct Slot {
        StageBuffers buffers;
        i64 input_of = -1;  // micro-batch whose input is in the slot or is being received; -1: none
        i64 output_sent_of = -1;  // the micro-batch whose output was sent and whose gradient is not
                                  // being received yet; -1: none
        comm::Work input, output_sent, gradient, gradient_sent;
    };
    // The receives of one direction, in the order of the pass.
    struct Receives {
        std::vector<spec::PipelineAction> all;
        size_t n_posted = 0;
        size_t n_needed = 0;  // receive_*() was called for the first n_needed
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
