// SPDX-License-Identifier: Apache-2.0
#include "comm/launch.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.hpp"
#include "base/joint_error.hpp"
#include "comm/mpi/plugin.hpp"
#include "comm/rendezvous.hpp"
#include "comm/tcp_world.hpp"

namespace lm::comm {
namespace {

constexpr const char* plugin_file = "liblm_mpi.so";

class Alone final : public Launch {
  public:
    explicit Alone(const LaunchOptions& options) { world_->watch(options.watch); }
    Group& world() override { return *world_; }
    std::string describe() const override { return "1 rank"; }

  private:
    std::unique_ptr<Group> world_ = self("world");
};

// A number of the environment; -1: not there, or not a number.
i64 number_of(const char* variable) {
    const char* text = std::getenv(variable);
    if (text == nullptr) return -1;
    char* end = nullptr;
    const i64 value = std::strtoll(text, &end, 10);
    return end == text || *end != 0 ? -1 : value;
}

std::string plugin_path() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&plugin_path), &info) == 0) return plugin_file;
    const std::string library = info.dli_fname;
    const size_t slash = library.rfind('/');
    return slash == std::string::npos ? plugin_file : library.substr(0, slash + 1) + plugin_file;
}

const MpiPlugin& open_plugin(const LaunchedBy& by) {
    const std::string path = plugin_path();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        run_error("MPI",
                  "started by {}, but the MPI plugin cannot be opened: {}: it is built by -D "
                  "LM_MPI=ON and stands beside liblm_train.so",
                  by.launcher, dlerror());
    }
    using Entry = const MpiPlugin* (*)();
    const auto entry = reinterpret_cast<Entry>(dlsym(library, mpi_plugin_symbol));
    if (entry == nullptr) run_error(path, "not an MPI plugin of this toolkit");
    const MpiPlugin& plugin = *entry();
    if (plugin.abi != mpi_plugin_abi) {
        run_error(path,
                  "belongs to another version of the toolkit (ABI {}, not {}): install both "
                  "from one build",
                  plugin.abi, mpi_plugin_abi);
    }
    return plugin;
}

// Where several ranks meet whom no launcher of MPI has started. Slurm sets its variables in batch
// scripts too, outside of a step.
std::optional<Meeting> meeting_without_mpi() {
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
        if (number_of(variable) >= 0) return std::nullopt;
    }
    const bool ranks = std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr;
    if (!ranks && number_of("SLURM_STEP_NUM_TASKS") <= 1) return std::nullopt;
    std::optional<Meeting> meeting =
        meeting_of([](const char* name) -> const char* { return std::getenv(name); });
    return meeting && meeting->size > 1 ? meeting : std::nullopt;
}

}  // namespace

LaunchedBy launched_by() {
    const i64 n_tasks = number_of("SLURM_STEP_NUM_TASKS");
    const std::string launcher = n_tasks >= 0 ? "srun" : "mpirun";
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
        if (const i64 size = number_of(variable); size >= 0) return {size > 1, launcher, size};
    }
    if (number_of("PMIX_RANK") >= 0) return {n_tasks != 1, launcher, std::max<i64>(n_tasks, 0)};
    if (n_tasks > 1) {
        usage_error("srun", "started {} tasks that do not know of each other: use srun --mpi=pmix",
                    n_tasks);
    }
    return {};
}

std::optional<i64> local_rank() {
    for (const char* variable :
         {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK", "SLURM_LOCALID"}) {
        if (const i64 rank = number_of(variable); rank >= 0) return rank;
    }
    return std::nullopt;
}

int with_one_error(Launch& launch, const std::function<int()>& body) {
    try {
        return body();
    } catch (const JointError&) {
        throw;
    } catch (const Error& error) {
        const std::optional<std::string> first = launch.ended_before(error.what());
        if (!first) throw;
        throw JointError(error.code(), *first);
    }
}

double report_after_s(int rank) {
    constexpr double rank_0_first_s = 2;  // an error of all ranks is told by rank 0
    constexpr double twice_as_many_s = 0.5;
    return rank == 0 ? 0 : rank_0_first_s + twice_as_many_s * std::log2(rank);
}

std::unique_ptr<Launch> launch(const LaunchOptions& options) {
    if (const std::optional<Meeting> meeting = meeting_without_mpi()) {
        if (options.rendezvous) return std::make_unique<TcpWorld>(*meeting, options);
        // srun's tasks have a message of their own below.
        if (std::getenv("WORLD_SIZE") != nullptr) {
            usage_error("WORLD_SIZE", "there are {} ranks, but on CPUs they need MPI: use mpirun",
                        meeting->size);
        }
    }
    const LaunchedBy by = launched_by();
    if (!by.mpi) return std::make_unique<Alone>(options);
    std::unique_ptr<Launch> launch = open_plugin(by).open(options);
    if (by.n_ranks > 0 && launch->world().size() != by.n_ranks) {
        usage_error(by.launcher, "started {} ranks, but MPI knows of {}: use the launcher of {}{}",
                    by.n_ranks, launch->world().size(), launch->describe(),
                    by.launcher == "srun" ? ", or srun --mpi=pmix" : "");
    }
    return launch;
}

}  // namespace lm::comm
