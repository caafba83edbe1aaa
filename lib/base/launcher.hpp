// SPDX-License-Identifier: Apache-2.0
// The environment variables that launchers of parallel processes (mpirun, mpiexec, srun, torchrun)
// set in each process: its rank, the number of ranks, and the address where the ranks connect.
// Other code reads these variables through this header. lib/comm connects the ranks by MPI or TCP.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/types.hpp"

namespace lm {

// Replaces getenv(), so that tests can provide an environment.
using Environment = std::function<const char*(const char* name)>;
const char* environment_of_process(const char* name);

enum class Launcher {
    none,      // a single process, or an unknown launcher
    open_mpi,  // OMPI_COMM_WORLD_RANK, _SIZE: mpirun of Open MPI
    pmi,       // PMI_RANK, PMI_SIZE: mpiexec of MPICH and its descendants, srun --mpi=pmi2
    pmix,      // PMIX_RANK; only Slurm states the number of processes: srun --mpi=pmix
    torchrun,  // RANK, WORLD_SIZE
    slurm,     // SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_ID: any srun
};

struct Launched {
    Launcher by = Launcher::none;
    int rank = 0;
    int size = 1;  // number of ranks; 0: unknown
    bool in_slurm_step = false;
};

// Finds the first launcher of `among` whose variables are set, and returns the rank and the number
// of ranks that they state. Without such a launcher, returns rank 0 of 1. A process that a Slurm
// batch script starts without srun also counts as a single process. Throws Error(usage) naming a
// variable with an invalid value.
Launched launched_by(std::initializer_list<Launcher> among,
                     const Environment& get = environment_of_process);

// Returns the rank of this process among the processes that the launcher started on this host;
// nullopt when the launcher does not state this rank.
std::optional<i64> rank_on_host(const Environment& get = environment_of_process);

// Returns the id of the Slurm job, for messages; an empty text outside of Slurm.
std::string slurm_job(const Environment& get = environment_of_process);

// The address where the processes of torchrun, and of srun without MPI, connect over TCP.
struct MeetingPoint {
    std::string host;   // address of rank 0: a name, or IPv4 or IPv6
    int port = 0;       // port on which rank 0 listens
    std::string token;  // LM_RENDEZVOUS_TOKEN: a secret of the job's ranks; empty: not set
    std::string start;  // names the job and its start; equal for all ranks; not secret
    // The agent of torchrun serves a key-value store at this port, which the ranks cannot use.
    bool agent_store = false;
};
// Returns the address that MASTER_ADDR and MASTER_PORT state. Under srun, the default host is the
// first host of the step's node list, and the default port is computed from the ids of job and step
// (20000 to 31999). Throws Error(usage) naming a variable that is missing or invalid.
MeetingPoint meeting_point(const Launched& launched,
                           const Environment& get = environment_of_process);

// Returns the first host of a Slurm node list: "n07" for "n[07-12,15],m3".
std::string first_host(const std::string& node_list);

}  // namespace lm
