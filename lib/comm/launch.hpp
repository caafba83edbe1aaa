// SPDX-License-Identifier: Apache-2.0
// Joins the ranks that a launcher (base/launcher.hpp) has started: one rank alone, MPI when mpirun,
// mpiexec or srun started it, or TCP. MPI is a plugin, liblm_mpi.so in the directory of this
// library, and opened only then, so that a single process never loads it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/group.hpp"

namespace lm::comm {

struct LaunchOptions {
    double timeout_s = 600;  // for each operation, and for all ranks to join
    // Compare the operations of all members before each collective: finds bugs, slow.
    bool check_operations = false;
    // Records the operations of the world and its parts; its state is sent to ranks that ask. Or
    // none.
    FlightRecorder* recorder = nullptr;
    // Ranks that MPI has not started may join over TCP (tcp/rendezvous.hpp), by the variables of
    // torchrun-like launchers and of Slurm. For programs whose tensors NCCL carries.
    bool rendezvous = false;
    // Elements of one MPI call at most; larger operations are cut. Lowered by tests.
    i64 max_count = i64{1} << 30;
};

// The connection to the other ranks. Destroying it in order is collective. When an exception
// destroys it, or the process exits or dies without destroying it, the whole job ends, with the
// exit code of this process. Rank 0 goes first then, so that an error of all ranks is printed once.
class Launch {
  public:
    virtual ~Launch() = default;
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    virtual Group& world() = 0;
    // Returns "1 rank", "8 ranks, Open MPI 4.1.4", for the log.
    virtual std::string describe() const = 0;

    // Called when this rank ends by an error of its own, `reason`. Returns the error by which
    // another rank has ended the job before, if that is known: this rank's error follows from it,
    // and thousands of ranks need not print theirs.
    virtual std::optional<std::string> ended_before(const std::string& /*reason*/) noexcept {
        return std::nullopt;
    }

    // Returns whether its groups are fit for tensors in host memory.
    virtual bool carries_tensors() const { return true; }

  protected:
    Launch() = default;
};

// Runs `body`. Rethrows its Error, as JointError with the first rank's reason when another rank has
// failed before.
int with_one_error(Launch& launch, const std::function<int()>& body);

// Returns how long a rank delays the report of its own error when it cannot know whether it was the
// first: lower ranks report first, and the first report ends the job.
double report_after_s(int rank);

// Joins the ranks; once per process. Throws Error(failure) when MPI is needed and cannot be opened,
// or after a timeout waiting for ranks, and Error(usage) when srun started several tasks without
// --mpi=pmix: each would take itself for the only one. Collective.
std::unique_ptr<Launch> launch(const LaunchOptions& options = {});

}  // namespace lm::comm
