// SPDX-License-Identifier: Apache-2.0
// The training loop around the training step: data, logs, saves, validation and stopping. The pure
// functions of train/loop/loop_rules.hpp decide what the loop does after each iteration. All ranks
// make equal decisions, because loop_state() returns an equal state on all ranks.
#pragma once

#include <atomic>

#include "base/clock.hpp"
#include "comm/flight_recorder.hpp"
#include "comm/group.hpp"
#include "train/log/energy_log.hpp"
#include "train/log/status_file.hpp"
#include "train/log/training_log.hpp"
#include "train/loop/job_end.hpp"
#include "train/resume/refused_iterations.hpp"
#include "train/resume/resume.hpp"

namespace lm::train {

// The objects that the loop works with. All of them outlive it.
struct LoopParts {
    const RunConfig& config;
    const data::DataSets& data;
    const io::OrderedJson& data_identities;  // from training_data(); set on rank 0 only
    comm::Group& world;
    comm::FlightRecorder& recorder;
    device::Device& device;
    Trainer& trainer;
    data::Loader& loader;
    TrainingLog& log;
    StatusFile& status;
    EnergyLog* energy;                  // nullptr: this rank measures no energy
    const Stopwatch& since_start;       // runs since the start of run()
    const JobEndWatch& job_end;         // has the end of the job on rank 0 only
    std::atomic<bool>& dump_requested;  // set by SIGUSR2

    bool is_rank0() const { return world.rank() == 0; }
};

struct LoopEnd {
    Exit code;
    bool advanced;  // the run made a step
};
// Trains until a rule ends the run. Saves, evaluates and logs between iterations. `start`: the
// progress from which the run continues. `evaluation_pending`: result of evaluation_is_pending().
// Collective.
LoopEnd run_loop(const LoopParts& parts, const Progress& start, bool evaluation_pending,
                 RefusedIterations refused);

}  // namespace lm::train
