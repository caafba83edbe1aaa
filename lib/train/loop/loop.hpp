// SPDX-License-Identifier: Apache-2.0
// The training loop around the training step: data, logs, saves, validation and stopping. The pure
// functions of train/loop/loop_rules.hpp decide what the loop does after each iteration. All ranks
// make equal decisions, because loop_state() returns an equal state on all ranks.
#pragma once

#include <atomic>
#include <span>

#include "base/clock.hpp"
#include "comm/flight_recorder.hpp"
#include "comm/group.hpp"
#include "train/config/run_config.hpp"
#include "train/log/energy_log.hpp"
#include "train/log/pace.hpp"
#include "train/log/status_file.hpp"
#include "train/log/straggler.hpp"
#include "train/log/training_log.hpp"
#include "train/loop/evaluation.hpp"
#include "train/loop/job_end.hpp"
#include "train/loop/loop_rules.hpp"
#include "train/loop/phase_estimates.hpp"
#include "train/loop/step_guard.hpp"
#include "train/loop/step_stop.hpp"
#include "train/resume/refused_iterations.hpp"
#include "train/resume/resume.hpp"
#include "train/save/saver.hpp"
#include "train/step/batch_source.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {

// The objects that the loop works with. All of them outlive the loop.
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
    bool evaluation_pending;            // result of evaluation_is_pending()
    RefusedIterations refused;
};

class TrainingLoop {
  public:
    TrainingLoop(const LoopParts& parts, const Progress& start);

    // Calls Saver::prepare() in a run with --save. Collective.
    void prepare_saves();

    // Trains until a rule ends the run. Saves, evaluates and logs between iterations. Collective.
    Exit run();

    const optim::Counters& done() const { return progress_.done; }

  private:
    bool is_rank0() const { return world_.rank() == 0; }
    Exit run_to_stop();
    StepGuard::Verdict iterate();
    StepGuard::Verdict step(const TrainingLog::BatchSize& batch, StepResult& result);
    StepGuard::Verdict judge(const StepGuard::Step& step, StepResult& result);
    bool must_end_step();
    void wait_for_originals();
    void roll_back();
    std::optional<i64> newest_step();
    [[noreturn]] void stop_at_spike();
    bool skip();
    TrainingLog::BatchSize next_batch_size() const;
    optim::UpdateRates next_rates() const;
    ckpt::SaveInfo info_of_save() const;
    void advance(bool updated);
    LoopState loop_state();
    void report_status(bool logged);
    void dump() const;
    void compare_ranks();
    void check_replicas();
    void commit_if_written(const LoopState& now);
    void save_locally();
    void save(Stop stop);
    bool evaluate(bool validates, bool tests);
    Stop stop_in_evaluation();
    static bool stop_signal_received();
    bool must_stop() const;
    bool present_on_rank0(const std::string& file) const;
    Exit stopping(const std::string& why, Exit code);
    Exit leave(Stop stop);

    const RunConfig& config_;
    const io::OrderedJson& data_identities_;
    comm::Group& world_;
    comm::FlightRecorder& recorder_;
    device::Device& device_;
    Trainer& trainer_;
    data::Loader& loader_;
    TrainingLog& log_;
    StatusFile& status_;
    EnergyLog* energy_;
    std::atomic<bool>& dump_requested_;
    const JobEndWatch& job_end_;
    LoopRules rules_;
    Progress progress_;
    bool evaluation_pending_;  // the evaluation after progress_.done was due, but has not ended
    i64 n_timed_;  // number of iterations after the first in which --benchmark measures operations
    LoaderBatches batches_;
    Pace pace_;
    StepStop step_stop_;
    Evaluation evaluation_;
    StepGuard guard_;
    RefusedIterations refused_;
    RankComparison comparison_;
    i64 compared_ = 0;  // iterations of this run that comparison_ contains
    Saver saver_;
    PhaseEstimates estimates_;
    const Stopwatch& since_start_;
    double step_s_ = 0;          // time of the last iteration
    double longest_step_s_ = 0;  // LoopState::step_s, the same on all ranks
    i64 run_iterations_ = 0;
};

}  // namespace lm::train
