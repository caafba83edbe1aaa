// SPDX-License-Identifier: Apache-2.0
#include "cluster/launch.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace lm::cluster {
namespace {

struct Launcher {
    const char* rank;
    const char* size;
    const char* also;  // must be set too
};

// Slurm sets SLURM_PROCID in a batch script as well; the step's variables are srun's alone. mpirun
// within a Slurm job starts its daemons as a step: its own variables go first.
constexpr std::array<Launcher, 3> launchers = {{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr},
    {"PMI_RANK", "PMI_SIZE", nullptr},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"},
}};

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

int number(const char* name) {
    const std::string_view text = variable(name);
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0)
        usage_error(name, "'{}' in the environment is not a number", text);
    return value;
}

std::string job_text() {
    std::string all;
    for (const char* name :
         {"PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports", "OMPI_MCA_ess_base_jobid",
          "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "PMI_JOBID"}) {
        all += variable(name);
        all += '\n';
    }
    return fmt::format("{:016x}", hash64(all));
}

}  // namespace

Launch detect_launch() {
    for (const Launcher& launcher : launchers) {
        if (variable(launcher.rank).empty() || variable(launcher.size).empty()) continue;
        if (launcher.also != nullptr && variable(launcher.also).empty()) continue;
        Launch launch{number(launcher.rank), number(launcher.size), job_text()};
        if (launch.size < 1 || launch.rank >= launch.size) {
            usage_error(launcher.rank, "{} in the environment is not below {} {}", launch.rank,
                        launcher.size, launch.size);
        }
        return launch;
    }
    return {};
}

}  // namespace lm::cluster
