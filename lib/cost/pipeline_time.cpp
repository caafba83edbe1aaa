// SPDX-License-Identifier: Apache-2.0
#include "cost/pipeline_time.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace lm::cost {

using namespace spec;
namespace {

// A schedule in virtual time: each stage executes its actions in order, and a receive waits for its
// message.
class VirtualPipeline {
  public:
    VirtualPipeline(const PipelineShape& shape, const PipelineDurations& durations,
                    std::vector<PipelineEvent>* events)
        : shape_(shape), durations_(durations), events_(events) {
        for (i64 s = 0; s < shape.n_stages; ++s) stages_.push_back({pipeline_actions(shape, s)});
        const i64 n_messages = shape.n_stages * shape.n_chunks * shape.n_micro_batches;
        for (std::vector<double>& arrivals : arrived_)
            arrivals.assign(static_cast<size_t>(n_messages), never);
    }

    double run() {
        for (bool moved = true; moved;) {
            moved = false;
            for (i64 s = 0; s < shape_.n_stages; ++s) {
                Stage& stage = stages_[static_cast<size_t>(s)];
                while (stage.next < stage.actions.size() && advance(s, stage)) moved = true;
            }
        }
        double end_s = 0;
        for (const Stage& stage : stages_) {
            LM_CHECK(stage.next == stage.actions.size(),
                     "pipeline schedule deadlocks: expected {} actions of a stage, executed {}",
                     stage.actions.size(), stage.next);
            end_s = std::max(end_s, stage.clock_s);
        }
        return end_s;
    }

  private:
    static constexpr double never = std::numeric_limits<double>::infinity();

    struct Stage {
        std::vector<PipelineAction> actions;
        size_t next = 0;
        double clock_s = 0;
    };

    // Returns the arrival time of a message at virtual stage `at`. The message is an activation
    // (forward) or a gradient.
    double& arrival(bool forward, i64 at, i64 micro_batch) {
        return arrived_[forward ? 1 : 0]
                       [static_cast<size_t>(at * shape_.n_micro_batches + micro_batch)];
    }

    void compute(i64 s, Stage& stage, const PipelineAction& action, bool forward) {
        const auto here = static_cast<size_t>(action.chunk * shape_.n_stages + s);
        const PassDurations& pass =
            durations_.passes.size() == 1 ? durations_.passes[0] : durations_.passes[here];
        const double start_s = stage.clock_s;
        stage.clock_s += forward ? pass.forward_s : pass.backward_s;
        if (events_)
            events_->push_back(
                {s, action.chunk, action.micro_batch, forward, start_s, stage.clock_s});
    }

    // Executes the next action of stage `s`. Returns false when the action is a receive whose
    // message has not been sent yet.
    bool advance(i64 s, Stage& stage) {
        const PipelineAction& action = stage.actions[stage.next];
        const i64 here = action.chunk * shape_.n_stages + s;
        using enum PipelineOp;
        switch (action.op) {
            case forward:
            case backward:
                compute(s, stage, action, action.op == forward);
                break;
            case send_forward:
                arrival(true, here + 1, action.micro_batch) = stage.clock_s + durations_.message_s;
                break;
            case send_backward:
                arrival(false, here - 1, action.micro_batch) = stage.clock_s + durations_.message_s;
                break;
            case receive_forward:
            case receive_backward: {
                const double arrived_s =
                    arrival(action.op == receive_forward, here, action.micro_batch);
                if (arrived_s == never) return false;
                stage.clock_s = std::max(stage.clock_s, arrived_s);
                break;
            }
        }
        ++stage.next;
        return true;
    }

    const PipelineShape& shape_;
    const PipelineDurations& durations_;
    std::vector<PipelineEvent>* events_;
    std::vector<Stage> stages_;
    std::vector<double> arrived_[2];
};

}  // namespace

double pipeline_time(const PipelineShape& shape, const PipelineDurations& durations,
                     std::vector<PipelineEvent>* events) {
    return VirtualPipeline(shape, durations, events).run();
}

}  // namespace lm::cost
