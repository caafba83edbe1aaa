// SPDX-License-Identifier: Apache-2.0
// Runs a stage's list of actions (spec/pipeline_schedule.hpp) over its chunks of the model:
// receives are posted as soon as their place is free and sends are not waited for before that place
// is needed again, so that messages travel while the stage computes.
#pragma once

#include <functional>
#include <vector>

#include "parallel/grid.hpp"
#include "spec/pipeline_schedule.hpp"

namespace lm::parallel {

// Where one micro-batch in flight crosses the borders of a chunk. The input's gradient goes out
// from where the input came in, the output's gradient comes in where the output went out. None at
// the ends of the model.
struct Border {
    device::View input;
    device::View output;
};

class Pipeline {
  public:
    // A micro-batch through one chunk; its activations lie in slot_of(chunk, micro_batch).
    using Compute = std::function<void(i64 chunk, i64 micro_batch)>;

    // `borders` of each slot of each chunk. `grid` outlives this.
    Pipeline(Grid& grid, std::vector<std::vector<Border>> borders, Compute forward,
             Compute backward);

    // All micro-batches of a step forward and backward, or forward only. The interleaved schedule
    // trains whole groups of micro-batches (check_pipeline). A number for which it was not called
    // before allocates the new list.
    void train(i64 n_micro_batches);
    void evaluate(i64 n_micro_batches);

    int slot_of(i64 chunk, i64 micro_batch) const;

  private:
    // Activations of one chunk in one slot, and the messages that use them.
    struct Slot {
        Border border;
        i64 holds = -1;  // the micro-batch that uses it, from its input's posting on; or none
        i64 sent = -1;   // the micro-batch whose output was sent last
        comm::Work input, output_sent, gradient, gradient_sent;
    };
    // The receives of one direction in their order, and how many have been posted.
    struct Receives {
        std::vector<spec::PipelineAction> all;
        size_t n_posted = 0;
        size_t n_taken = 0;
    };
    struct Plan {
        i64 n_micro_batches = 0;
        std::vector<spec::PipelineAction> actions;
        Receives inputs, gradients;
    };

    Plan make_plan(i64 n_micro_batches, bool training) const;
    void run(Plan& plan, bool training);
    void perform(Plan& plan, const spec::PipelineAction& action, bool training);
    void post_inputs(Receives& inputs);
    void post_gradients(Receives& gradients);
    Slot& slot(const spec::PipelineAction& action);
    int peer(spec::PipelineOp op) const;
    void finish_sends();

    Grid& grid_;
    spec::PipelineShape shape_;
    Compute forward_, backward_;
    std::vector<std::vector<Slot>> slots_;  // of each chunk
    Plan training_, evaluation_;
};

}  // namespace lm::parallel
