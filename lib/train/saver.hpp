// SPDX-License-Identifier: Apache-2.0
// The saves of a run. A save copies this rank's part of the state to host memory and returns; a
// thread of the rank writes its files. After each step, the loop passes to progress() whether any
// rank is_writing(); progress() commits the save once all ranks have written their files. One
// save is in flight at a time. A failed save gives a warning, and the training continues; the last
// save of a run is repeated for the time --save-retry. All functions are collective unless stated
// otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/flight_recorder.hpp"
#include "train/distributed_save.hpp"
#include "train/resume.hpp"
#include "train/retention.hpp"
#include "train/snapshot.hpp"
#include "train/training_log.hpp"

namespace lm::train {

// The objects that a saver works with. All of them outlive it.
struct SaverParts {
    const RunConfig& config;
    const io::OrderedJson& data_identities;  // training_data(), for checkpoints; set on rank 0 only
    comm::Group& world;
    comm::FlightRecorder& recorder;
    Trainer& trainer;
    TrainingLog& log;
};

class Saver {
  public:
    explicit Saver(const SaverParts& parts) : parts_(parts) {}
    // Waits for the thread that writes, not for other ranks.
    ~Saver();
    Saver(const Saver&) = delete;
    Saver& operator=(const Saver&) = delete;

    // Claims a generation of --save: an earlier run cannot write there afterwards. `loaded`: the
    // step that the run resumes from. Allocates the buffer of asynchronous saves.
    void prepare(const std::optional<ckpt::Tip>& loaded);

    // Saves the state at `progress`. Returns when the state may change, or for a synchronous save
    // when the step is complete. Commits an earlier save first.
    void save(const Progress& progress);
    // Saves the state at `progress`, unless it is saved already, and waits until the step is
    // complete. Repeats a failed save; throws JointError(failure) when it still fails after
    // --save-retry. `in_a_hurry`: the process may be killed soon, so the next run applies
    // --save-retain.
    void save_last(const Progress& progress, bool in_a_hurry);

    // Returns whether this rank is writing files of a save. Not collective.
    bool is_writing() const { return writing_; }
    // Commits the save in flight when no rank is writing. `any_writing`: is_writing() of any rank.
    void progress(bool any_writing);
    // Blocks until the optimizer step may change the state: until the save in flight has read the
    // pieces that have no copy. Not collective.
    void wait_for_originals();
    // Waits for the save in flight and commits it. Does nothing without one.
    void finish();

  private:
    // A save that was begun and not committed.
    struct InFlight {
        DistributedSave save;
        Stopwatch since_begin = {};
        double blocked_s = 0;  // time that the loop has waited for this save; 0: a synchronous save
    };

    bool is_rank0() const { return parts_.world.rank() == 0; }
    void begin(const Progress& progress);
    void write_and_commit();
    void start_writing();
    void write_files();
    void commit();
    void commit_or_warn();
    void failed(i64 iteration, const JointError& error);
    std::string try_last(const Progress& progress);

    SaverParts parts_;
    ckpt::Generation generation_;
    std::unique_ptr<NodeFiles> files_;
    std::unique_ptr<Snapshot> snapshot_;    // set for asynchronous saves
    std::unique_ptr<Retention> retention_;  // on rank 0, with --save-retain
    std::optional<InFlight> in_flight_;
    std::thread writer_;
    std::atomic<bool> writing_ = false;
    std::optional<ckpt::StepReference> parent_;  // the step that was loaded or saved last
    i64 saved_ = -1;                             // iteration of the newest complete step
    i64 n_failures_ = 0;                         // failed saves in a row
};

}  // namespace lm::train
