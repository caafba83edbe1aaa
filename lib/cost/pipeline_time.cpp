// SPDX-License-Identifier: Apache-2.0
#include "cost/pipeline_time.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.hpp"

namespace lm::cost {

using namespace spec;

double pipeline_time(const PipelineShape& shape, const PipelineDurations& durations) {
    struct Stage {
        std::vector<PipelineAction> actions;
        size_t next = 0;
        double clock = 0;
    };
    std::vector<Stage> stages;
    for (i64 s = 0; s < shape.n_stages; ++s) stages.push_back({pipeline_actions(shape, s)});
    // The arrival time of each message. The key is the direction (true: forward), the receiving
    // virtual stage and the micro-batch.
    std::map<std::tuple<bool, i64, i64>, double> arrived;
    const auto virtual_stage = [&](i64 stage, i64 chunk) { return chunk * shape.n_stages + stage; };
    // Executes the next action of stage `s`. Returns false when it is a receive whose message has
    // not been sent yet.
    const auto advance = [&](i64 s) {
        Stage& stage = stages[static_cast<size_t>(s)];
        const PipelineAction& action = stage.actions[stage.next];
        const i64 here = virtual_stage(s, action.chunk);
        using enum PipelineOp;
        switch (action.op) {
            case forward:
                stage.clock += durations.forward_s;
                break;
            case backward:
                stage.clock += durations.backward_s;
                break;
            case send_forward:
                arrived[{true, here + 1, action.micro_batch}] = stage.clock + durations.message_s;
                break;
            case send_backward:
                arrived[{false, here - 1, action.micro_batch}] = stage.clock + durations.message_s;
                break;
            case receive_forward:
            case receive_backward: {
                const auto message =
                    arrived.find({action.op == receive_forward, here, action.micro_batch});
                if (message == arrived.end()) return false;
                stage.clock = std::max(stage.clock, message->second);
                break;
            }
        }
        ++stage.next;
        return true;
    };
    for (bool moved = true; moved;) {
        moved = false;
        for (i64 s = 0; s < shape.n_stages; ++s) {
            const Stage& stage = stages[static_cast<size_t>(s)];
            while (stage.next < stage.actions.size() && advance(s)) moved = true;
        }
    }
    double end = 0;
    for (const Stage& stage : stages) {
        LM_CHECK(stage.next == stage.actions.size(),
                 "pipeline schedule deadlocks: expected {} actions of a stage, executed {}",
                 stage.actions.size(), stage.next);
        end = std::max(end, stage.clock);
    }
    return end;
}

double pipeline_bubble(const PipelineShape& shape) {
    return static_cast<double>(shape.n_stages - 1) /
           static_cast<double>(shape.n_micro_batches * shape.n_chunks);
}

}  // namespace lm::cost
