// SPDX-License-Identifier: Apache-2.0
// The training loop around the training step: data, logs, saves, validation and stopping. The pure
// functions of train/loop/loop_rules.hpp decide what the loop does after each iteration. All ranks
// make equal decisions, because loop_state() returns an equal state on all ranks.
#pragma once

#include "train/loop/evaluation.hpp"
#include "train/loop/iteration_log.hpp"
#include "train/loop/loop_parts.hpp"
#include "train/loop/loop_rules.hpp"
#include "train/loop/saves.hpp"
#include "train/loop/step_guard.hpp"
#include "train/loop/stops.hpp"
#include "train/resume/refused_iterations.hpp"
#include "train/resume/resume.hpp"
#include "train/step/batch_source.hpp"

namespace lm::train {

class TrainingLoop {
  public:
    // `start`: the progress from which the run continues. `evaluation_pending`: result of
    // evaluation_is_pending().
    TrainingLoop(const LoopParts& parts, const Progress& start, bool evaluation_pending,
                 RefusedIterations refused);
    TrainingLoop(const TrainingLoop&) = delete;
    TrainingLoop& operator=(const TrainingLoop&) = delete;

    // Calls Saver::prepare() in a run with --save. Collective.
    void prepare_saves();

    // Trains until a rule ends the run. Saves, evaluates and logs between iterations. Collective.
    Exit run();

    const optim::Counters& done() const { return progress_.done; }

  private:
    Exit run_to_stop();
    StepGuard::Verdict iterate();
    StepGuard::Verdict step(const TrainingLog::BatchSize& batch, StepResult& result);
    bool must_end_step();
    StepGuard::Verdict judge(const StepGuard::Step& step, StepResult& result);
    void roll_back();
    [[noreturn]] void stop_at_spike();
    bool skip();
    TrainingLog::BatchSize next_batch_size() const;
    optim::UpdateRates next_rates() const;
    void advance(bool updated);
    LoopState loop_state();
    void report_status(bool logged);
    void check_replicas();
    void commit_if_written(const LoopState& now);
    void save(Stop stop);
    bool evaluate(bool validates, bool tests);
    Stop stop_in_evaluation();
    Exit stopping(const std::string& why, Exit code);
    Exit leave(Stop stop);

    LoopParts parts_;
    const RunConfig& config_;
    Trainer& trainer_;
    LoopRules rules_;
    Progress progress_;
    i64 run_iterations_ = 0;
    double step_s_ = 0;        // time of the last iteration
    bool evaluation_pending_;  // the evaluation after progress_.done was due, but has not ended
    LoaderBatches batches_;
    Stops stops_;
    IterationLog iterations_;
    Evaluation evaluation_;
    Saves saves_;
    StepGuard guard_;
    RefusedIterations refused_;
};

}  // namespace lm::train
