// SPDX-License-Identifier: Apache-2.0
// Ends a training step, or a batch of an evaluation, between two micro-batches when a stop signal
// has arrived. When the signal arrives, prints a note that states when the training will stop.
#pragma once

#include <atomic>

#include "comm/group.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

class StepStop {
  public:
    // On rank 0, registers a handler that prints a note at the first stop signal of this process.
    // The destructor removes the handler.
    StepStop(const RunConfig& config, comm::Group& world);
    ~StepStop();
    StepStop(const StepStop&) = delete;
    StepStop& operator=(const StepStop&) = delete;

    // Call it before an iteration or before a global batch of an evaluation. `step_s`: the expected
    // time of this iteration or batch, equal on all ranks; 0: unknown.
    void begin_iteration(double step_s, i64 n_micro_batches);
    // Call it before each micro-batch. Returns true on all ranks when one rank has received a stop
    // signal and the step can end before this micro-batch. Collective.
    bool ends_step();

  private:
    void report(std::string_view signal) const;

    comm::Group& world_;
    bool can_end_;  // true without a pipeline, because then no rank waits for another stage
    bool cuda_;
    i64 micro_batch_ = 0;  // micro-batches of this rank that have begun in the iteration
    i64 check_every_ = 1;  // micro-batches
    std::atomic<bool> can_end_step_ = false;    // in this iteration
    std::atomic<double> iteration_ends_s_ = 0;  // expected, monotonic_s(); 0: unknown
};

}  // namespace lm::train
