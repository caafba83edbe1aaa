// SPDX-License-Identifier: Apache-2.0
// Joins the ranks that a launcher (base/launcher.hpp) has started: one rank alone, over MPI when
// mpirun, mpiexec or srun started it, or over TCP. MPI is a plugin, liblm_mpi.so in the directory
// of this library. It is opened only when MPI is used, so that a single process never loads it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "comm/group.hpp"

namespace lm::comm {

struct LaunchOptions {
    double timeout_s = 600;  // limit for each operation, and for joining all ranks
    // Compare the operations of all members before each collective. This finds bugs, and is slow.
    bool check_operations = false;
    // Records the operations of the world and its parts; nullptr: records nothing. When another
    // rank asks for this rank's status, the answer is the recorder's state.
    FlightRecorder* recorder = nullptr;
    // Allows ranks that MPI has not started to join over TCP (comm/tcp/rendezvous.hpp). They find
    // rank 0 by the environment variables of torchrun or Slurm. Only for programs that use NCCL for
    // their tensors.
    bool rendezvous = false;
    // Maximum number of elements of one MPI call. Larger operations are divided into several calls.
    // Tests lower it.
    i64 max_count = i64{1} << 30;
};

// The connection to the other ranks. Destroying it without an exception is collective. When an
// exception destroys it, or the process ends without destroying it, the whole job ends with the
// exit code of this process. Rank 0 then ends first, so that an error of all ranks is printed once.
class Launch {
  public:
    virtual ~Launch() = default;
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    virtual Group& world() = 0;
    // Returns a description for the log, such as "1 rank" or "8 ranks, Open MPI 4.1.4".
    virtual std::string describe() const = 0;

    // Call this when this rank ends because of its own error `own`. When another rank has failed
    // before and its error is known, returns that error. `own` is then only a consequence, and is
    // not printed: thousands of ranks may have one.
    virtual std::optional<Error> ended_before(const Error& /*own*/) noexcept {
        return std::nullopt;
    }

    // Returns whether groups are fast enough to carry tensors in host memory; over TCP they are
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
// Error elsewhere ends the job with the exit code of the rank that throws it. Do not catch it on
// one rank and continue: the next collectives of the ranks would not match.

// Runs `body` and returns its result. Rethrows its exception; when another rank has failed before,
// throws a JointError with that rank's reason and exit code instead.
int with_one_error(Launch& launch, const std::function<int()>& body);

// Returns how long a rank delays the report of its own error when it cannot know whether its error
// was the first. Lower ranks report first, and the first report ends the job.
double report_after_s(int rank);

// Joins the ranks. Call it once per process. Throws Error(failure) when MPI is needed and cannot be
// opened, or after a timeout waiting for ranks. Throws Error(usage) when srun started several tasks
// without --mpi=pmix: each task would then be a job of one rank. Collective.
std::unique_ptr<Launch> launch(const LaunchOptions& options = {});

}  // namespace lm::comm
