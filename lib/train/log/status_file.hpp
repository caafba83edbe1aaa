// SPDX-License-Identifier: Apache-2.0
// The file of --status-file: the state of a training as a small JSON object, for scripts that watch
// the training. The file is replaced atomically, so a reader always reads a complete object. During
// training, rank 0 rewrites the file at each log line, and after an iteration if the last write is
// at least a minute old. The field `due` is the time by which the next write happens unless the
// training hangs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "io/json.hpp"

namespace lm::train {

// The path of the status file, and the fields that stay the same during a run.
struct StatusSettings {
    std::string path;  // empty: no file is written
    std::string save;  // --save
    i64 total_iterations = 0;
    i64 log_interval = 1;  // iterations
    i64 n_ranks = 1;
    double timeout_s = 600;  // an operation between ranks fails after this time
};

// The saves of the rest of the run, from which a reader of the file forecasts the disk space.
struct ComingSaves {
    // The iterations of the saves that need space for one more checkpoint than before, at most the
    // first 200 (growing_saves() in train/save/save_room.hpp).
    std::vector<i64> growing;
    i64 step_bytes = 0;  // bytes of a checkpoint
};

class StatusFile {
  public:
    // Only rank 0 writes.
    StatusFile(StatusSettings settings, bool is_rank0);

    // Writes the state "starting".
    void start();
    // Sets the run id and the generation that this start has claimed in --save.
    void claimed(const std::string& run_id, i64 generation);
    // Sets the fields that forecast the disk space.
    void planned(const ComingSaves& saves);
    // Sets the progress of the checkpoint with which this start begins.
    void resumed(i64 done, i64 samples);
    // Records an iteration that took `step_s` seconds. Writes the state "running" when `logged`, at
    // the first iteration, and when the last write is a minute old.
    void iteration(i64 done, i64 samples, double step_s, bool logged);
    // Records the newest complete step of this start in --save (-1: none), and the number of saves
    // that failed in a row.
    void saved(i64 iteration, i64 n_failed);
    // The same for --local-save.
    void saved_locally(i64 iteration, i64 n_failed);
    // Writes a state in which the run makes no iteration, "saving" or "validating". `expected_s`:
    // an estimate of the duration of this state.
    void busy(const char* state, double expected_s);
    // Records why the run stops, for end_status().
    void stopping(const std::string& reason);

  private:
    void write(const char* state, double due_in_s);

    StatusSettings settings_;
    bool active_;
    bool failing_ = false;  // the last write failed
    io::OrderedJson fields_;
    double step_s_ = 0;
    Stopwatch since_write_;
};

// The end of a run on one rank.
struct RunEnd {
    Exit code = Exit::done;
    std::string reason;  // the error message; empty: the reason that stopping() has recorded
    int rank = 0;
};

// Returns the state of a run that ended with `code`: "finished" (0), "stopped" (75 and 76) or
// "failed".
const char* state_of(Exit code);

// Runs `body` and returns its exit code. Before it returns, rank 0 writes the end of the run to the
// status file `path`. Another rank writes the end only after an error of its own. Rethrows an
// exception of `body`.
int with_end_status(const std::string& path, const std::function<int()>& body);

// Writes the end of a run to the status file `path`. Keeps the other fields, which rank 0 wrote
// during the run. If another rank has written its error since `started_s` (unix time), does nothing
// unless the exit code is 0, because the first error is the cause. Does nothing with
// Exit::superseded after a newer run has written the file. Does not throw; prints a warning when it
// cannot replace a state in the file.
void end_status(const std::string& path, const RunEnd& end, double started_s);

}  // namespace lm::train
