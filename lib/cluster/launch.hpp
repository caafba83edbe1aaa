// SPDX-License-Identifier: Apache-2.0
// Which of how many processes a launcher started this one as, from the environment alone: mpirun
// (Open MPI, MPICH and its descendants) and srun.
#pragma once

#include <string>

namespace lm::cluster {

struct Launch {
    int rank = 0;
    int size = 1;
    std::string job;  // the same text in all processes of one start, and hardly in any others
};

// A job script itself, outside srun, counts as one process. Throws Error(usage) for an environment
// that contradicts itself.
Launch detect_launch();

}  // namespace lm::cluster
