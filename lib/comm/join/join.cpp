// SPDX-License-Identifier: Apache-2.0
// Why plugins that are opened at run time, and not a binary for each set of features.
//
// One installation must serve the login node without a GPU, the laptop without MPI, and the cluster
// that has both in versions that no packager has seen. PyTorch publishes a package for each version
// of CUDA and one without, and its MPI backend only exists where the user compiles PyTorch. A
// program that links these libraries does not even print --help where one of them is missing.
//
// So lm-train links none of them. liblm_mpi.so, liblm_cuda.so and liblm_cudnn.so are opened when
// the launcher, --device or --attention-backend asks for them, and the plan of a GPU job
// (--dry-run, lm-estimate) needs none. The packages of the plugins depend on the libraries, and the
// package of the programs does not. A library that is missing becomes an error with a remedy at the
// place that needed it, and with --attention-backend auto a missing cuDNN only means other kernels.
//
// Two kinds of libraries are opened in two ways:
//
// - NCCL and NVML have a stable C interface. Their functions are looked up one by one
//   (cuda/nccl/nccl_library.cpp, cluster/nvml.cpp), and no plugin is between.
// - MPI had no common binary interface before MPI 5.0. A communicator is a pointer to a structure
//   in Open MPI and a number in MPICH, so code has to be compiled against one mpi.h: that is the
//   plugin. CUDA needs nvcc for its kernels, and cuDNN's frontend is a library of templates.
//
// The interface of a plugin is one exported function, which returns a struct whose first member is
// the version of the interface. The other members return C++ objects: a Group, a Device. That is
// less to write than a C interface with handles, and backends stay ordinary subclasses. The price
// is that a plugin and the programs come from one build. The version is raised by hand with each
// change of a class that crosses the border. A forgotten change may crash, so the packages also
// depend on the exact version of each other.
//
// Further costs: the linker does not check the program against the plugin, so RTLD_NOW makes a
// missing symbol an error at the start instead of in a step. A plugin is never closed, because
// objects with its virtual functions, and exit handlers of MPI and CUDA, live until the process
// ends. Exceptions cross the border by the names of their types.
//
// The interface of MPI 5.0 would turn the first plugin into a table of functions such as NCCL's,
// once clusters have it.
#include "comm/join/join.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/hash.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "comm/mpi/plugin.hpp"
#include "comm/self/group.hpp"
#include "comm/tcp/rendezvous.hpp"
#include "comm/tcp/world.hpp"

namespace lm::comm {
namespace {

constexpr const char* plugin_file = "liblm_mpi.so";

class Alone final : public Launch {
  public:
    explicit Alone(const LaunchOptions& options) { world_->record_to(options.recorder); }
    Group& world() override { return *world_; }
    std::string describe() const override { return "1 rank"; }

  private:
    std::unique_ptr<Group> world_ = self("world");
};

std::string plugin_path() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&plugin_path), &info) == 0) return plugin_file;
    const std::string library = info.dli_fname;
    const size_t slash = library.rfind('/');
    return slash == std::string::npos ? plugin_file : library.substr(0, slash + 1) + plugin_file;
}

const MpiPlugin& open_plugin(const std::string& launcher) {
    const std::string path = plugin_path();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        run_error("MPI",
                  "{} started the ranks, but the MPI plugin cannot be opened: {}: build the plugin "
                  "with -D LM_MPI=ON and install it in the directory of liblm_train.so",
                  launcher, dlerror());
    }
    using Entry = const MpiPlugin* (*)();
    const auto entry = reinterpret_cast<Entry>(dlsym(library, mpi_plugin_symbol));
    if (entry == nullptr) {
        run_error(path, "has no symbol {}: install it with lm-train, from the same build",
                  mpi_plugin_symbol);
    }
    const MpiPlugin& plugin = *entry();
    if (plugin.abi != mpi_plugin_abi) {
        run_error(path,
                  "was built from another version: expected ABI {}, got {}: install it with "
                  "lm-train, from the same build",
                  mpi_plugin_abi, plugin.abi);
    }
    return plugin;
}

std::unique_ptr<Launch> join_by_mpi(const Launched& launched, const LaunchOptions& options) {
    const std::string launcher = launched.in_slurm_step ? "srun" : "mpirun";
    std::unique_ptr<Launch> launch = open_plugin(launcher).open(options);
    if (launched.size > 0 && launch->world().size() != launched.size) {
        const std::string described = launch->describe();  // "1 ranks, Open MPI v4.1.4"
        usage_error(launcher, "started {} ranks, but MPI joined {}: use the launcher of {}{}",
                    launched.size, launch->world().size(),
                    described.substr(described.find(", ") + 2),
                    launched.in_slurm_step ? ", or srun --mpi=pmix" : "");
    }
    return launch;
}

// Decides where the ranks find the hub's port and the job's token (comm/tcp/proof.hpp).
Meeting meeting_of(const Launched& launched, const LaunchOptions& options) {
    const MeetingPoint point = meeting_point(launched);
    Meeting meeting{.rank = launched.rank,
                    .size = launched.size,
                    .host = point.host,
                    .port = point.port,
                    .token = point.token};
    if (point.agent_store) meeting.store_key = "lm-utils/" + point.start;
    if (!meeting.token.empty()) return meeting;
    if (!options.shared_directory.empty()) {
        // The mark ".tmp." shows that a file that a killed start has left can be removed.
        meeting.token_file = fmt::format("{}/rendezvous.tmp.{:016x}", options.shared_directory,
                                         hash64(fmt::format("{} {}", point.start, point.port)));
    } else {
        // Any program that reaches the store of torchrun can read the token there.
        if (!point.agent_store) meeting.token = point.start;
        if (launched.rank == 0) {
            warn(
                "{}: the ranks have no secret, so any program that reaches this port can join the "
                "job: export LM_RENDEZVOUS_TOKEN=$(openssl rand -hex 32) for all ranks",
                place_of(meeting));
        }
    }
    return meeting;
}

std::unique_ptr<Launch> join_without_mpi(const LaunchOptions& options) {
    const Launched launched = launched_by({Launcher::torchrun, Launcher::slurm});
    if (launched.size > 1 && options.rendezvous) {
        auto world = std::make_unique<TcpWorld>(meeting_of(launched, options), options);
        world->join();
        return world;
    }
    if (launched.size > 1 && launched.by == Launcher::torchrun) {
        usage_error("WORLD_SIZE", "{} ranks on CPUs cannot connect without MPI: use mpirun",
                    launched.size);
    }
    if (const int n_tasks = launched_by({Launcher::slurm}).size; n_tasks > 1) {
        usage_error(
            "srun",
            "started {} tasks without MPI, each of which would run alone: use srun --mpi=pmix",
            n_tasks);
    }
    return std::make_unique<Alone>(options);
}

}  // namespace

std::unique_ptr<Launch> launch(const LaunchOptions& options) {
    const Launched launched = launched_by({Launcher::open_mpi, Launcher::pmi, Launcher::pmix});
    if (launched.by == Launcher::none) return join_without_mpi(options);
    if (launched.size == 1) return std::make_unique<Alone>(options);
    return join_by_mpi(launched, options);
}

}  // namespace lm::comm
