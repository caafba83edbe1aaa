// SPDX-License-Identifier: Apache-2.0
#include "parallel/hosts.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/hash.hpp"
#include "base/threads.hpp"

namespace lm::parallel {

std::string host_name() {
    std::array<char, 256> host{};
    return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "an unnamed host";
}

i64 cores_of_rank(comm::Group& world) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    (void)::sched_getaffinity(0, sizeof cores, &cores);
    const std::string_view mask(reinterpret_cast<const char*>(&cores), sizeof cores);
    u64 place = hash64(host_name() + std::string(mask));
    std::vector<u64> places(static_cast<size_t>(world.size()));
    world.all_gather({&place, DType::int64, {1}}, {places.data(), DType::int64, {world.size()}});
    const i64 n_sharing = std::ranges::count(places, place);
    return std::max<i64>(1, available_cores() / n_sharing);
}

i64 place_on_host(comm::Group& world) {
    u64 host = hash64(host_name());
    std::vector<u64> hosts(static_cast<size_t>(world.size()));
    world.all_gather({&host, DType::int64, {1}}, {hosts.data(), DType::int64, {world.size()}});
    return std::count(hosts.begin(), hosts.begin() + world.rank(), host);
}

}  // namespace lm::parallel
