// SPDX-License-Identifier: Apache-2.0
// The group of all ranks that a launcher (base/launcher.hpp) started with this one: one rank
// alone, MPI when mpirun, mpiexec or srun started it, or a TCP rendezvous. MPI lives in a plugin,
// liblm_mpi.so beside this library, that is opened only then, so that one process never pays for
// it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/group.hpp"

namespace lm::comm {

struct LaunchOptions {
    double timeout_s = 600;  // how long an operation waits for members that do not come
    // Compare the operations of all members before each collective: for finding bugs, slow.
    bool check_operations = false;
    // What this rank does, for the others' messages when they miss it; operations of the world and
    // its parts are recorded there. Or none.
    FlightRecorder* recorder = nullptr;
    // Where MPI has not started the ranks, they may meet over TCP, by the variables of
    // torchrun-like launchers and of Slurm (tcp/rendezvous.hpp): for what they tell each other
    // around tensors that travel by NCCL.
    bool rendezvous = false;
    // The most elements that one MPI call gets; larger operations are cut. Lowered by tests.
    i64 max_count = i64{1} << 30;
};

// Keeps the connection to the other ranks. When an exception destroys it, the whole job is ended as
// soon as this process exits, with its exit code: the one line that tells the error is printed
// before. (Rank 0 comes first, so that an error of all ranks is told once.) When the process exits
// or dies without destroying it, the job is ended likewise.
class Launch {
  public:
    virtual ~Launch() = default;
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    virtual Group& world() = 0;
    // "1 rank", "8 ranks, Open MPI 4.1.4": for the log.
    virtual std::string describe() const = 0;

    // This rank is about to end by an error of its own, because of `reason`: what another one has
    // ended the job by before, if that is known. Then this error follows from that one, and
    // thousands of ranks need not each tell theirs.
    virtual std::optional<std::string> ended_before(const std::string& /*reason*/) noexcept {
        return std::nullopt;
    }

    // Whether its groups are made to carry tensors of the host.
    virtual bool carries_tensors() const { return true; }

  protected:
    Launch() = default;
};

// Runs `body`; its errors are those of this rank alone, or, when another one came first,
// JointError.
int with_one_error(Launch& launch, const std::function<int()>& body);

// How long a rank holds back an error of its own, where nothing tells whether it is the first: the
// lower ranks go first, and the first of all ends the job.
double report_after_s(int rank);

// One per process. Throws Error(failure) when MPI is needed and cannot be had, and Error(usage)
// when srun started several tasks without --mpi=pmix: each would take itself for the only one.
std::unique_ptr<Launch> launch(const LaunchOptions& options = {});

}  // namespace lm::comm
