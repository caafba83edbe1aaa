// SPDX-License-Identifier: Apache-2.0
#include "parallel/stage_transfers.hpp"

#include "base/error.hpp"

namespace lm::parallel {

using spec::PipelineAction;
using spec::PipelineOp;

StageTransfers::StageTransfers(Grid& grid, const std::vector<std::vector<StageBuffers>>& buffers)
    : grid_(grid),
      shape_{.n_stages = grid.parallel.pp, .n_chunks = static_cast<i64>(buffers.size())} {
    for (const std::vector<StageBuffers>& chunk : buffers) {
        std::vector<Slot>& slots = slots_.emplace_back();
        for (const StageBuffers& slot : chunk) slots.push_back({.buffers = slot});
    }
}

// The backward passes of a chunk run in the order of its forward passes, and there are as many
// slots as micro-batches between their forward and their backward (cost::micro_batches_in_flight).
// So slots are used in turn.
int StageTransfers::slot_of(i64 chunk, i64 micro_batch) const {
    const size_t n_slots = slots_[static_cast<size_t>(chunk)].size();
    return static_cast<int>(micro_batch % static_cast<i64>(n_slots));
}

StageTransfers::Slot& StageTransfers::slot(const PipelineAction& action) {
    const auto number = static_cast<size_t>(slot_of(action.chunk, action.micro_batch));
    return slots_[static_cast<size_t>(action.chunk)][number];
}

int StageTransfers::peer(PipelineOp op) const {
    return static_cast<int>(spec::pipeline_peer(shape_, grid_.at.pp, op));
}

// All slots are free here, because the previous pass has waited for all receives, and
// finish_sends() for all sends.
void StageTransfers::begin(std::span<const PipelineAction> actions) {
    for (Receives* receives : {&inputs_, &gradients_}) {
        receives->all.clear();
        receives->n_posted = receives->n_needed = 0;
    }
    for (const PipelineAction& action : actions) {
        if (action.op == PipelineOp::receive_forward) inputs_.all.push_back(action);
        if (action.op == PipelineOp::receive_backward) gradients_.all.push_back(action);
    }
    for (std::vector<Slot>& chunk : slots_) {
        for (Slot& slot : chunk) slot.input_of = slot.output_sent_of = -1;
    }
    post_receives();
}

void StageTransfers::receive_input(const PipelineAction& action) {
    ++inputs_.n_needed;
    post_inputs();
    slot(action).input.wait();
}

void StageTransfers::receive_gradient(const PipelineAction& action) {
    ++gradients_.n_needed;
    post_gradients();
    slot(action).gradient.wait();
}

void StageTransfers::send_output(const PipelineAction& action) {
    Slot& slot = this->slot(action);
    slot.output_sent = grid_.pipeline->start_send(slot.buffers.output, peer(action.op));
    slot.output_sent_of = action.micro_batch;
}

// Sends the gradient of the input, which backward has written over the input. The slot may receive
// the next input after this send.
void StageTransfers::send_gradient(const PipelineAction& action) {
    Slot& slot = this->slot(action);
    slot.gradient_sent = grid_.pipeline_backward->start_send(slot.buffers.input, peer(action.op));
    slot.input_of = -1;
}

void StageTransfers::acquire_output(const PipelineAction& action) {
    slot(action).output_sent.wait();
}

void StageTransfers::release_input(const PipelineAction& action) {
    slot(action).input_of = -1;
}

void StageTransfers::post_receives() {
    post_inputs();
    post_gradients();
}

// Posts receives of inputs. An input is received into the memory from which the gradient of an
// earlier input was sent. The receive is posted when that send is done, or when the device can
// order the receive after the send. If receive_input() needs the receive earlier, this function
// first waits for the send. Receives are posted in the order of the schedule, which is the order of
// the peer's sends, so a receive whose slot is not free delays the later receives.
void StageTransfers::post_inputs() {
    for (; inputs_.n_posted < inputs_.all.size(); ++inputs_.n_posted) {
        const PipelineAction& action = inputs_.all[inputs_.n_posted];
        Slot& slot = this->slot(action);
        const bool needed = inputs_.n_posted < inputs_.n_needed;
        const bool free = slot.input_of < 0 && slot.gradient_sent.is_stream_ordered();
        if (!needed && !free) return;
        LM_CHECK(slot.input_of < 0,
                 "expected a free slot for micro-batch {}, got one with micro-batch {}",
                 action.micro_batch, slot.input_of);
        if (!free) slot.gradient_sent.wait();
        slot.input_of = action.micro_batch;
        slot.input =
            grid_.pipeline->start_receive(slot.buffers.input, peer(action.op), slot.gradient_sent);
    }
}

// Posts receives of gradients, under the same conditions as post_inputs(). The gradient of an
// output is received into the memory from which that output was sent, after that send.
void StageTransfers::post_gradients() {
    for (; gradients_.n_posted < gradients_.all.size(); ++gradients_.n_posted) {
        const PipelineAction& action = gradients_.all[gradients_.n_posted];
        Slot& slot = this->slot(action);
        const bool needed = gradients_.n_posted < gradients_.n_needed;
        const bool free =
            slot.output_sent_of == action.micro_batch && slot.output_sent.is_stream_ordered();
        if (!needed && !free) return;
        if (!free) slot.output_sent.wait();
        slot.output_sent_of = -1;
        slot.gradient = grid_.pipeline_backward->start_receive(slot.buffers.output, peer(action.op),
                                                               slot.output_sent);
    }
}

void StageTransfers::finish_sends() {
    for (std::vector<Slot>& chunk : slots_) {
        for (Slot& slot : chunk) {
            slot.output_sent.wait();
            slot.gradient_sent.wait();
        }
    }
}

}  // namespace lm::parallel
