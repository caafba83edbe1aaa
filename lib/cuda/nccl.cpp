// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job meet in NCCL: each with a GPU of its own, by an id that rank 0 makes and
// the host's group hands out.
#include <fmt/format.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/joint_error.hpp"
#include "cuda/nccl_group.hpp"

namespace lm::cuda {
namespace {

using device::View;

bool is_set(const char* variable) {
    return std::getenv(variable) != nullptr;
}

// Sums inside of switches (NVLink SHARP) come in an order that NCCL does not promise; where nobody
// asked for an algorithm they are left out, since a run must give the same bits twice.
void promise_order() {
    if (!is_set("NCCL_ALGO") && !is_set("NCCL_NVLS_ENABLE")) setenv("NCCL_NVLS_ENABLE", "0", 0);
}

// This machine as NCCL tells machines apart.
std::string machine() {
    if (const char* const id = std::getenv("NCCL_HOSTID")) return id;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    return host + boot;
}

// Two ranks on one GPU are a mistake that NCCL words badly, unless they were asked for.
void require_gpus_of_their_own(const CudaDevice& device, comm::Group& host) {
    const cudaDeviceProp& p = device.properties();
    const std::string address =
        fmt::format("{:04x}:{:02x}:{:02x}", p.pciDomainID, p.pciBusID, p.pciDeviceID);
    u64 gpu = hash64(machine() + " " + address);
    std::vector<u64> gpus(static_cast<size_t>(host.size()));
    host.all_gather({&gpu, DType::int64, {1}}, {gpus.data(), DType::int64, {host.size()}});
    const char* const shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (shared != nullptr && std::strcmp(shared, "0") != 0) return;
    for (int rank = 0; rank < host.size(); ++rank) {
        if (rank == host.rank() || gpus[static_cast<size_t>(rank)] != gpu) continue;
        throw JointError(
            Exit::usage,
            fmt::format("cuda:{}: ranks {} and {} share the GPU at {}: start as many ranks on a "
                        "machine as it has GPUs, one for each",
                        device.index(), std::min(rank, host.rank()), std::max(rank, host.rank()),
                        address));
    }
}

ncclUniqueId exchange_id(comm::Group& host) {
    ncclUniqueId id{};
    // A failure is told by all ranks, not waited for.
    i32 made = host.rank() != 0 || ncclGetUniqueId(&id) == ncclSuccess ? 1 : 0;
    host.broadcast({&made, DType::int32, {1}}, 0);
    if (made == 0) run_error("NCCL", "ncclGetUniqueId: {}", ncclGetLastError(nullptr));
    host.broadcast({&id, DType::uint8, {static_cast<i64>(sizeof id)}}, 0);
    return id;
}

}  // namespace

std::unique_ptr<comm::Group> join_nccl(device::Device& any_device, std::unique_ptr<comm::Group> own,
                                       double timeout_s) {
    auto& device = static_cast<CudaDevice&>(any_device);
    std::shared_ptr<comm::Group> host = std::move(own);
    promise_order();
    require_gpus_of_their_own(device, *host);
    const ncclUniqueId id = exchange_id(*host);
    const auto world = std::make_shared<NcclWorld>(device, host, timeout_s);
    const auto channel =
        std::make_shared<Channel>(device, host->name(), host, host->rank(), host->size());
    {
        const std::lock_guard lock(world->mutex());
        world->add(channel);
        channel->join(id);
    }
    const Stopwatch watch;
    world->until([&] {
        if (channel->formed()) return true;
        if (watch.elapsed_s() < timeout_s) return false;
        run_error("NCCL", "{} within {:.0f} s: NCCL_DEBUG=INFO tells more",
                  "the ranks' GPUs did not connect", timeout_s);
    });
    return std::make_unique<NcclGroup>(world, host, channel, host->name());
}

}  // namespace lm::cuda
