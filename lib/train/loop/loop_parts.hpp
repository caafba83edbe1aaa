// SPDX-License-Identifier: Apache-2.0
// The objects that the training loop works with.
#pragma once

#include <atomic>

#include "base/clock.hpp"
#include "comm/flight_recorder.hpp"
#include "comm/group.hpp"
#include "train/log/energy_log.hpp"
#include "train/log/status_file.hpp"
#include "train/log/training_log.hpp"
#include "train/loop/job_end.hpp"

namespace lm::train {

// All of them outlive the loop.
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

}  // namespace lm::train
