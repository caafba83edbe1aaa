// SPDX-License-Identifier: Apache-2.0
// What the launchers of many processes (mpirun, mpiexec, srun, torchrun and their like) tell each
// of them in its environment: which of how many it is, and where the others can be met. Their
// variables are read here alone; joining the others (MPI, TCP, files) is the callers' part.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/types.hpp"

namespace lm {

// Stands for getenv(), so that tests bring an environment of their own.
using Environment = std::function<const char*(const char* name)>;
const char* environment_of_process(const char* name);

enum class Launcher {
    none,      // alone, or started by something that tells nothing
    open_mpi,  // OMPI_COMM_WORLD_RANK, _SIZE: mpirun of Open MPI
    pmi,       // PMI_RANK, PMI_SIZE: mpiexec of MPICH and its descendants, srun --mpi=pmi2
    pmix,      // PMIX_RANK; the number of processes is known from Slurm alone: srun --mpi=pmix
    torchrun,  // RANK, WORLD_SIZE
    slurm,     // SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_ID: any srun
};

struct Launched {
    Launcher by = Launcher::none;
    int rank = 0;
    int size = 1;  // 0: not told
    bool in_slurm_step = false;
};

// The first of the launchers `among` that has started this process. A job script itself, outside
// srun, is alone. Throws Error(usage), naming the variable, for one that contradicts itself.
Launched launched_by(std::initializer_list<Launcher> among,
                     const Environment& get = environment_of_process);

// This process's number among those of its host; nullopt: the launcher does not tell.
std::optional<i64> rank_on_host(const Environment& get = environment_of_process);

// The batch job of Slurm, for people; empty without.
std::string slurm_job(const Environment& get = environment_of_process);

// The same text in all processes of one start, and hardly in any others.
std::string key_of_start(const Environment& get = environment_of_process);

// Where the processes of torchrun and of srun without MPI can meet over TCP.
struct MeetingPoint {
    std::string host;   // of rank 0: a name or an address, IPv4 or IPv6
    int port = 0;       // rank 0 listens there
    std::string token;  // the same for all ranks of a job
};
// From MASTER_ADDR and MASTER_PORT. With srun these may be left out: the first host of the step's
// node list, and a port made from the job's number. The token is LM_RENDEZVOUS_TOKEN, else made of
// the job's number. Throws Error(usage) naming the variable that is missing or wrong.
MeetingPoint meeting_point(const Launched& launched,
                           const Environment& get = environment_of_process);

// "n[07-12,15],m3": "n07".
std::string first_host(const std::string& node_list);

}  // namespace lm
