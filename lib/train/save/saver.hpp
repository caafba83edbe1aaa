// SPDX-License-Identifier: Apache-2.0
// The saves of a run. An asynchronous save copies this rank's part of the state to host memory and
// returns. A thread of the rank then writes the files. After each step the loop calls
// commit_if_written(), which commits the save when all ranks have written their files. At most one
// save is in flight at a time. After a failed save rank 0 prints a warning, and the training
// continues. A failed last save of a run is repeated for the time --save-retry. All functions are
// collective unless stated otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/flight_recorder.hpp"
#include "train/log/training_log.hpp"
#include "train/save/distributed_save.hpp"
#include "train/save/local_saver.hpp"
#include "train/save/retention.hpp"
#include "train/save/snapshot.hpp"

namespace lm::train {

// The objects that a saver works with. All of them outlive the saver.
struct SaverParts {
    const RunConfig& config;
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

    // Claims a generation of --save, so that an earlier run can no longer write to --save.
    // `loaded`: the step that the run resumes from. Allocates the buffer of asynchronous saves.
    // Call it again after a rollback, when no save is in flight. That call abandons the steps after
    // `loaded`, local steps included, so that no run loads them.
    void prepare(const std::optional<ckpt::Tip>& loaded);

    // The fields of the manifest, `info`, do not contain the parent step, which the saver adds.
    //
    // Saves the trainer's state. Finishes an earlier save first. A synchronous save returns when
    // the step is complete. An asynchronous save returns earlier; call wait_for_originals() before
    // the state changes.
    void save(const ckpt::SaveInfo& info);
    // Saves the state to --local-save. Returns when the step is complete, or the save has failed
    // with a warning.
    void save_locally(const ckpt::SaveInfo& info);
    // Saves the state, unless it is saved already, and waits until the step is complete. Repeats a
    // failed save; throws JointError(failure) when it still fails after --save-retry. `in_a_hurry`:
    // the process may be killed soon, so --save-retain is left to the next run.
    void save_last(const ckpt::SaveInfo& info, bool in_a_hurry);

    // Returns the generation that prepare() has claimed last. Not collective.
    const ckpt::Generation& generation() const { return generation_; }
    // Returns the iteration of the newest step that this run has saved since prepare(); -1: none.
    // Not collective.
    i64 saved_iteration() const { return saved_; }
    // Returns the number of failed saves in a row.
    i64 n_failures() const { return n_failures_; }
    // The same two for saves to --local-save.
    i64 local_iteration() const { return local_iteration_; }
    i64 n_local_failures() const { return n_local_failures_; }
    // Returns how long the newest complete save took, from begin() to commit(); nullopt: none. Not
    // collective.
    std::optional<double> save_s() const { return save_s_; }
    // Returns whether this rank is writing files of a save. Not collective.
    bool is_writing() const { return writing_; }
    // Returns whether this rank is verifying or deleting for --save-retain. Not collective.
    bool is_retaining() const { return retention_ && retention_->is_busy(); }
    // Commits the save in flight when no rank is writing, and applies --save-retain when no rank is
    // verifying or deleting. `any_writing`: whether is_writing() is true on any rank.
    // `any_retaining`: whether is_retaining() is true on any rank.
    void commit_if_written(bool any_writing, bool any_retaining);
    // Blocks until the save in flight has read the pieces that have no copy; then the optimizer
    // step may change the state. Not collective.
    void wait_for_originals();
    // Waits for the save in flight and commits it. Does nothing when no save is in flight.
    void finish();

  private:
    // A save that was begun and is not committed yet.
    struct InFlight {
        DistributedSave save;
        Stopwatch since_begin = {};
        double blocked_s = 0;  // time that the loop has waited for this save; 0: a synchronous save
    };

    bool is_rank0() const { return parts_.world.rank() == 0; }
    ckpt::SaveInfo with_parent(ckpt::SaveInfo info) const;
    void begin(const ckpt::SaveInfo& info);
    bool is_short_of_room(const RoomNeed& need) const;
    void write_and_commit();
    void start_writing();
    void write_files();
    void commit();
    void commit_or_warn();
    void failed(i64 iteration, const JointError& error);
    std::string try_last(const ckpt::SaveInfo& info);

    SaverParts parts_;
    ckpt::Generation generation_;
    std::unique_ptr<NodeFiles> files_;
    std::unique_ptr<LocalSaver> local_;     // set with --local-save
    std::unique_ptr<Snapshot> snapshot_;    // set for asynchronous saves
    std::unique_ptr<Retention> retention_;  // set with --save-retain
    std::optional<InFlight> in_flight_;
    std::thread writer_;
    std::atomic<bool> writing_ = false;
    std::optional<ckpt::StepReference> parent_;  // the step that was loaded or saved last
    i64 saved_ = -1;                             // iteration of the newest complete step
    std::optional<double> save_s_;               // time of the newest complete save
    i64 n_failures_ = 0;                         // failed saves in a row
    i64 local_iteration_ = -1;                   // iteration of the newest local step
    i64 n_local_failures_ = 0;                   // failed local saves in a row
};

}  // namespace lm::train
