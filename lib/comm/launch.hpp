// SPDX-License-Identifier: Apache-2.0
// The connection of a rank to the other ranks of its job, and the errors of code that several ranks
// run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "comm/group.hpp"

namespace lm::comm {

struct LaunchOptions {
    double timeout_s = 600;  // limit for each operation, and over TCP for connecting all ranks
    // Compare the operations of all members before each collective. This finds bugs, and is slow.
    bool check_operations = false;
    // Records the operations of the world group and of all groups that are split from it; nullptr:
    // records nothing. When another rank asks for this rank's status, the answer is the recorder's
    // state.
    FlightRecorder* recorder = nullptr;
    // true: ranks that no MPI launcher has started connect over TCP (comm/tcp/rendezvous.hpp). They
    // find rank 0 by the environment variables of torchrun or Slurm. Set this member only in
    // programs that use NCCL for their tensors.
    bool rendezvous = false;
    // A directory that all ranks share, such as that of --save; empty: none. Over TCP, rank 0 gives
    // the job's token to the other ranks in a file of this directory, which it removes when all
    // ranks have connected.
    std::string shared_directory;
    // Returns the name of the signal that asks this process to stop, or nullptr. Ranks that wait to
    // be connected over TCP then throw JointError(run_again). Empty: signals have their own effect.
    std::function<const char*()> stop_signal;
    // Maximum number of elements of one MPI call. Larger operations are divided into several calls.
    // Tests use a smaller number.
    i64 max_count = i64{1} << 30;
};

// The connection to the other ranks. Its destructor is collective, except during an exception. If
// an exception destroys the connection, or the process ends before the destructor has run, the
// whole job ends with the exit code of this process. Rank 0 then ends first, so that an error of
// all ranks is printed once.
class Launch {
  public:
    virtual ~Launch() = default;
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    virtual Group& world() = 0;
    // Returns a description for the log, such as "1 rank" or "8 ranks, Open MPI v4.1.4".
    virtual std::string describe() const = 0;

    // Call this function when this rank ends because of its own error `own`. Returns the error of
    // another rank that is known to have failed earlier; nullopt when no such rank is known. If an
    // error is returned, do not print `own`: it is a consequence of the returned error, and
    // thousands of ranks may have it.
    virtual std::optional<Error> ended_before(const Error& /*own*/) noexcept {
        return std::nullopt;
    }

    // Returns whether groups are fast enough to carry tensors in host memory. Groups over TCP are
    // not.
    virtual bool carries_tensors() const { return true; }

  protected:
    Launch() = default;
};

// Exceptions in code that several ranks run. Throw a JointError when all ranks decide alike from
// values that are equal on all of them, such as flags, the loop's state or the sums of a step. Only
// rank 0 prints a JointError, so rank 0 must throw it, too. Throw an Error inside of
// parallel::together() when a single rank may fail at a point that all ranks pass, such as opening
// files, reading a checkpoint or allocating memory. All ranks then throw the same JointError. An
// Error at any other place ends the job with the exit code of the rank that throws it. Do not catch
// such an Error on one rank and continue, because the next collectives of the ranks would not
// match.

// Runs `body` and returns its result. Rethrows an exception of `body`, unless another rank has
// failed earlier. In that case throws a JointError with the reason and the exit code of that rank.
int with_one_error(Launch& launch, const std::function<int()>& body);

// Returns how many seconds a rank delays the report of its own error when it cannot know whether
// another rank has failed before. Lower ranks report first, and the first report ends the job.
double report_after_s(int rank);

}  // namespace lm::comm
