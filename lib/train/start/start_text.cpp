// SPDX-License-Identifier: Apache-2.0
#include "train/start/start_text.hpp"

#include <dnnl.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <algorithm>

#include "base/hash.hpp"
#include "base/launcher.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "cluster/host_list.hpp"

namespace lm::train {
namespace {

std::string launcher_name() {
    const Launched launched = launched_by(
        {Launcher::open_mpi, Launcher::pmi, Launcher::pmix, Launcher::torchrun, Launcher::slurm});
    const std::string job = slurm_job().empty() ? "" : fmt::format(", Slurm job {}", slurm_job());
    switch (launched.by) {
        case Launcher::none:
            return "no launcher" + job;
        case Launcher::open_mpi:
            return "mpirun" + job;
        case Launcher::pmi:
            return (launched.in_slurm_step ? "srun --mpi=pmi2" : "mpiexec") + job;
        case Launcher::pmix:
            return "srun --mpi=pmix" + job;
        case Launcher::torchrun:
            return "torchrun" + job;
        case Launcher::slurm:
            return "srun" + job;
    }
    return "";
}

}  // namespace

std::string describe_start(const std::string& joined, const std::vector<std::string>& hosts) {
    std::vector<std::string> names = hosts;
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::string text = fmt::format(" > {:<12} lm-train {}\n", "program", version());
    text += fmt::format(" > {:<12} {}: {}\n", "started by", launcher_name(), joined);
    text += fmt::format(" > {:<12} {}: {}\n", "hosts", names.size(), cluster::host_list(names));
    const dnnl_version_t& dnnl = *dnnl_version();
    return text + fmt::format(" > {:<12} glibc {}, oneDNN {}.{}.{}, fmt {}.{}.{}\n", "libraries",
                              gnu_get_libc_version(), dnnl.major, dnnl.minor, dnnl.patch,
                              FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
}

std::string describe_cuda(const std::string& libraries) {
    return fmt::format(" > {:<12} {}\n", "GPU software", libraries);
}

std::string describe_devices(const device::Device& device, comm::Group& world) {
    std::string name = device.name();  // "cuda:3 (NVIDIA H100)": the index differs between ranks
    if (const size_t index = name.find(':'); index < name.find(" (")) {
        name.erase(index, name.find(" (") - index);
    }
    i64 own = static_cast<i64>(hash64(name) >> 1);
    i64 first = own;
    world.broadcast({&first, DType::int64, {1}}, 0);
    i64 n_others = own != first ? 1 : 0;
    world.all_reduce({&n_others, DType::int64, {1}});
    const std::string others =
        n_others > 0
            ? fmt::format("rank 0; {} of {} ranks have another device", n_others, world.size())
            : "each rank";
    return fmt::format(" > {:<12} {} on {}\n", "devices", name, others);
}

std::string describe_memory(const device::Device& device, comm::Group& world) {
    i64 own = device.allocated_bytes();
    std::vector<i64> all(static_cast<size_t>(world.size()));
    world.all_gather({&own, DType::int64, {1}}, {all.data(), DType::int64, {world.size()}});
    const auto most = std::ranges::max_element(all);
    return fmt::format(" > {:<12} {} ({} bytes) on rank {}, the largest of all ranks\n",
                       "allocated", human_size(*most), *most, most - all.begin());
}

}  // namespace lm::train
