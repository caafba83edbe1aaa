// SPDX-License-Identifier: Apache-2.0
#include "parallel/pipeline.hpp"

#include "base/error.hpp"

namespace lm::parallel {

using spec::PipelineAction;
using spec::PipelineOp;

Pipeline::Pipeline(Grid& grid, std::vector<std::vector<Border>> borders, Compute forward,
                   Compute backward)
    : grid_(grid),
      shape_{.n_stages = grid.parallel.pp, .n_chunks = static_cast<i64>(borders.size())},
      forward_(std::move(forward)),
      backward_(std::move(backward)) {
    for (std::vector<Border>& chunk : borders) {
        std::vector<Slot>& slots = slots_.emplace_back();
        for (Border& border : chunk) slots.push_back({.border = border});
    }
}

int Pipeline::slot_of(i64 chunk, i64 micro_batch) const {
    const size_t n_slots = slots_[static_cast<size_t>(chunk)].size();
    return static_cast<int>(micro_batch % static_cast<i64>(n_slots));
}

Pipeline::Slot& Pipeline::slot(const PipelineAction& action) {
    const auto number = static_cast<size_t>(slot_of(action.chunk, action.micro_batch));
    return slots_[static_cast<size_t>(action.chunk)][number];
}

int Pipeline::peer(PipelineOp op) const {
    return static_cast<int>(spec::pipeline_peer(shape_, grid_.at.pp, op));
}

Pipeline::Plan Pipeline::make_plan(i64 n_micro_batches, bool training) const {
    spec::PipelineShape shape = shape_;
    shape.n_micro_batches = n_micro_batches;
    if (training) spec::check_pipeline(shape);
    Plan plan{.n_micro_batches = n_micro_batches,
              .actions = training ? spec::pipeline_actions(shape, grid_.at.pp)
                                  : spec::pipeline_forward_actions(shape, grid_.at.pp),
              .inputs = {},
              .gradients = {}};
    for (const PipelineAction& action : plan.actions) {
        if (action.op == PipelineOp::receive_forward) plan.inputs.all.push_back(action);
        if (action.op == PipelineOp::receive_backward) plan.gradients.all.push_back(action);
    }
    return plan;
}

void Pipeline::train(i64 n_micro_batches) {
    if (training_.n_micro_batches != n_micro_batches) training_ = make_plan(n_micro_batches, true);
    run(training_, true);
}

void Pipeline::evaluate(i64 n_micro_batches) {
    if (evaluation_.n_micro_batches != n_micro_batches) {
        evaluation_ = make_plan(n_micro_batches, false);
    }
    run(evaluation_, false);
}

void Pipeline::run(Plan& plan, bool training) {
    for (Receives* receives : {&plan.inputs, &plan.gradients}) {
        receives->n_posted = 0;
        receives->n_taken = 0;
    }
    post_inputs(plan.inputs);
    for (const PipelineAction& action : plan.actions) {
        perform(plan, action, training);
        post_inputs(plan.inputs);
        post_gradients(plan.gradients);
    }
    finish_sends();
}

void Pipeline::perform(Plan& plan, const PipelineAction& action, bool training) {
    Slot& slot = this->slot(action);
    switch (action.op) {
        case PipelineOp::receive_forward:
            ++plan.inputs.n_taken;
            post_inputs(plan.inputs);
            slot.input.wait();
            break;
        case PipelineOp::forward:
            slot.output_sent.wait();  // of an evaluation's micro-batch that was here before
            forward_(action.chunk, action.micro_batch);
            slot.holds = training ? action.micro_batch : -1;
            break;
        case PipelineOp::send_forward:
            slot.output_sent = grid_.pipeline->start_send(slot.border.output, peer(action.op));
            slot.sent = action.micro_batch;
            break;
        case PipelineOp::receive_backward:
            ++plan.gradients.n_taken;
            post_gradients(plan.gradients);
            slot.gradient.wait();
            break;
        case PipelineOp::backward:
            backward_(action.chunk, action.micro_batch);
            slot.sent = -1;
            if (shape_.enters(grid_.at.pp, action.chunk)) slot.holds = -1;
            break;
        case PipelineOp::send_backward:
            slot.gradient_sent =
                grid_.pipeline_backward->start_send(slot.border.input, peer(action.op));
            slot.holds = -1;
            break;
    }
}

// As soon as the last that reads the slot was told to the device: behind that, and not behind what
// comes later. A stage's input goes where the gradient of an earlier one was sent from, so it comes
// behind that message. What the stage waits for already is posted in any case.
void Pipeline::post_inputs(Receives& inputs) {
    for (; inputs.n_posted < inputs.all.size(); ++inputs.n_posted) {
        const PipelineAction& action = inputs.all[inputs.n_posted];
        Slot& slot = this->slot(action);
        const bool needed = inputs.n_posted < inputs.n_taken;
        const bool free = slot.holds < 0 && slot.gradient_sent.is_stream_ordered();
        if (!needed && !free) return;
        LM_CHECK(slot.holds < 0, "a pipeline slot for two micro-batches");
        if (!free) slot.gradient_sent.wait();
        slot.holds = action.micro_batch;
        slot.input =
            grid_.pipeline->start_receive(slot.border.input, peer(action.op), slot.gradient_sent);
    }
}

// The gradient of a stage's output goes where that output was sent from.
void Pipeline::post_gradients(Receives& gradients) {
    for (; gradients.n_posted < gradients.all.size(); ++gradients.n_posted) {
        const PipelineAction& action = gradients.all[gradients.n_posted];
        Slot& slot = this->slot(action);
        const bool needed = gradients.n_posted < gradients.n_taken;
        const bool free = slot.sent == action.micro_batch && slot.output_sent.is_stream_ordered();
        if (!needed && !free) return;
        if (!free) slot.output_sent.wait();
        slot.gradient = grid_.pipeline_backward->start_receive(slot.border.output, peer(action.op),
                                                               slot.output_sent);
    }
}

void Pipeline::finish_sends() {
    for (std::vector<Slot>& chunk : slots_) {
        for (Slot& slot : chunk) {
            slot.output_sent.wait();
            slot.gradient_sent.wait();
        }
    }
}

}  // namespace lm::parallel
