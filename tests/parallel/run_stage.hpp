// SPDX-License-Identifier: Apache-2.0
// One stage of a pipeline without a model: makes the calls of Trainer::run_schedule for the
// transfers, with given functions instead of compute.
#pragma once

#include <vector>

#include "parallel/stage_transfers.hpp"

namespace lm::test {

template <typename Compute>
void run_stage(parallel::StageTransfers& transfers,
               const std::vector<spec::PipelineAction>& actions, bool training,
               const Compute& compute) {
    transfers.begin(actions);
    for (const spec::PipelineAction& action : actions) {
        switch (action.op) {
            case spec::PipelineOp::receive_forward:
                transfers.receive_input(action);
                break;
            case spec::PipelineOp::forward:
                transfers.acquire_output(action);
                compute(action);
                if (!training) transfers.release_input(action);
                break;
            case spec::PipelineOp::send_forward:
                transfers.send_output(action);
                break;
            case spec::PipelineOp::receive_backward:
                transfers.receive_gradient(action);
                break;
            case spec::PipelineOp::backward:
                compute(action);
                break;
            case spec::PipelineOp::send_backward:
                transfers.send_gradient(action);
                break;
        }
        transfers.post_receives();
    }
    transfers.finish_sends();
}

}  // namespace lm::test
