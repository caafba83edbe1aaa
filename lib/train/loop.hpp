// SPDX-License-Identifier: Apache-2.0
// The training loop around the training step: data, logs, saves, validation and stopping. The pure
// functions of train/loop_rules.hpp decide what the loop does after each iteration. All ranks
// decide alike, because their state is the same and loop_state() combines signals, files and time
// of all ranks.
#pragma once

#include <atomic>
#include <span>

#include "base/clock.hpp"
#include "comm/flight_recorder.hpp"
#include "comm/group.hpp"
#include "train/batch_source.hpp"
#include "train/evaluation.hpp"
#include "train/loop_rules.hpp"
#include "train/resume.hpp"
#include "train/run_config.hpp"
#include "train/saver.hpp"
#include "train/trainer.hpp"
#include "train/training_log.hpp"

namespace lm::train {

// The objects that the loop works with. All of them outlive the loop.
struct LoopParts {
    const RunConfig& config;
    const data::DataSets& data;
    const io::OrderedJson& data_identities;  // training_data(), for checkpoints; set on rank 0 only
    comm::Group& world;
    comm::FlightRecorder& recorder;
    device::Device& device;
    Trainer& trainer;
    data::Loader& loader;
    TrainingLog& log;
    std::atomic<bool>& dump_requested;  // set by SIGUSR2
};

class TrainingLoop {
  public:
    TrainingLoop(const LoopParts& parts, const Progress& start);

    // Calls Saver::prepare() in a run with --save. Collective.
    void prepare_saves();

    // Trains until a rule ends the run. Saves, evaluates and logs between iterations. Collective.
    Exit run();

  private:
    bool is_rank0() const { return world_.rank() == 0; }
    Exit run_to_stop();
    void iterate();
    StepResult step(i64 global_batch);
    bool skip();
    TrainingLog::BatchSize next_batch_size() const;
    double next_rate() const;
    void advance(bool updated);
    void check_finite(i64 iteration, const StepResult& result);
    LoopState loop_state();
    void dump() const;
    void check_replicas();
    void save(Stop stop);
    Exit leave(Stop stop);

    const RunConfig& config_;
    comm::Group& world_;
    comm::FlightRecorder& recorder_;
    device::Device& device_;
    Trainer& trainer_;
    data::Loader& loader_;
    TrainingLog& log_;
    std::atomic<bool>& dump_requested_;
    LoopRules rules_;
    Progress progress_;
    i64 n_timed_;  // number of iterations after the first in which --benchmark measures operations
    LoaderBatches batches_;
    Evaluation evaluation_;
    Saver saver_;
    Stopwatch since_start_;
    i64 run_iterations_ = 0;
    i64 skipped_in_a_row_ = 0;  // steps in a row without an update, because of fp16 overflow
};

}  // namespace lm::train
