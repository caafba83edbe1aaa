// SPDX-License-Identifier: Apache-2.0
// Connects the ranks that a launcher (base/launcher.hpp) has started. A single rank needs no
// connection. Ranks that mpirun, mpiexec or srun --mpi has started connect over MPI. Other ranks
// connect over TCP if LaunchOptions::rendezvous is set. The code for MPI is in a plugin,
// liblm_mpi.so in the directory of this library. The plugin is opened only when MPI is used, so a
// single process never loads MPI.
#pragma once

#include <memory>

#include "comm/launch.hpp"

namespace lm::comm {

// Connects the ranks. Call it once per process. Throws Error(failure) when MPI is needed and cannot
// be opened, or when ranks have not connected over TCP in time. Throws Error(usage) when the
// launcher started several ranks that cannot connect, for example srun without --mpi=pmix.
// Collective.
std::unique_ptr<Launch> launch(const LaunchOptions& options = {});

}  // namespace lm::comm
