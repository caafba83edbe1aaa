// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl/nccl_join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/machine.hpp"
#include "cuda/nccl/nccl_group.hpp"
#include "cuda/nccl/nccl_library.hpp"

namespace lm::cuda {
namespace {

using device::View;

// Returns an identifier of this machine, computed like NCCL's own (NCCL_HOSTID, else host name and
// boot id).
std::string machine() {
    if (const char* const id = std::getenv("NCCL_HOSTID")) return id;
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    return host_name() + boot;
}

// A rank and its GPU, as exchanged between the ranks of a machine. `gpu` is a hash of the machine
// and the address of the GPU.
struct Place {
    u64 gpu;
    i64 rank;
};

// Throws Error(usage) when two ranks have the same GPU and NCCL_MULTI_RANK_GPU_ENABLE does not
// allow it. The error names the GPU; NCCL's own message does not. Collective over `host`.
void require_distinct_gpus(const CudaDevice& device, comm::Group& host) {
    const cudaDeviceProp& p = device.properties();
    const std::string address =
        fmt::format("{:04x}:{:02x}:{:02x}", p.pciDomainID, p.pciBusID, p.pciDeviceID);
    const std::string here = machine();
    const auto color = static_cast<int>(hash64(here) >> 33);
    const auto neighbours = host.split(color, host.rank(), "machine");
    const Place own{hash64(here + " " + address), host.rank()};
    std::vector<Place> places(static_cast<size_t>(neighbours->size()));
    constexpr i64 words = sizeof(Place) / sizeof(i64);
    neighbours->all_gather({const_cast<Place*>(&own), DType::int64, {words}},
                           {places.data(), DType::int64, {words * neighbours->size()}});
    const char* const shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (shared != nullptr && std::strcmp(shared, "0") != 0) return;
    for (const Place& other : places) {
        if (other.rank == own.rank || other.gpu != own.gpu) continue;
        throw JointError(
            Exit::usage,
            fmt::format(
                "cuda:{}: ranks {} and {} share the GPU at {}: start one rank for each GPU of "
                "a machine",
                device.index(), std::min(other.rank, own.rank), std::max(other.rank, own.rank),
                address));
    }
}

}  // namespace

std::unique_ptr<comm::Group> join_nccl(device::Device& any_device, std::unique_ptr<comm::Group> own,
                                       double timeout_s) {
    auto& device = static_cast<CudaDevice&>(any_device);
    std::shared_ptr<comm::Group> host = std::move(own);
    if (host->size() > 1) (void)nccl();
    require_distinct_gpus(device, *host);
    const auto world = NcclWorld::start(device, host, timeout_s);
    std::string name = host->name();
    return NcclGroup::create(world, std::move(host), std::move(name));
}

}  // namespace lm::cuda
