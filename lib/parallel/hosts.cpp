// SPDX-License-Identifier: Apache-2.0
#include "parallel/hosts.hpp"

#include <sched.h>

#include <algorithm>
#include <vector>

#include "base/hash.hpp"
#include "base/machine.hpp"
#include "base/threads.hpp"

namespace lm::parallel {
namespace {

// The number of ranks with the same place as this one. A place is a hash of the host, or of host
// and cores.
struct Neighbours {
    i64 n = 1;  // including this rank
    i64 n_before = 0;
};

// Counts the ranks with this rank's `place`. Splits the ranks by some bits of the hash first, then
// compares all bits within each part, so that no rank gathers the places of all ranks.
Neighbours neighbours_at(comm::Group& world, u64 place) {
    const auto part = world.split(static_cast<int>(place >> 33), world.rank(), "place");
    std::vector<u64> places(static_cast<size_t>(part->size()));
    part->all_gather({&place, DType::int64, {1}}, {places.data(), DType::int64, {part->size()}});
    return {.n = std::ranges::count(places, place),
            .n_before = std::count(places.begin(), places.begin() + part->rank(), place)};
}

}  // namespace

i64 cores_of_rank(comm::Group& world) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    (void)::sched_getaffinity(0, sizeof cores, &cores);
    const std::string_view mask(reinterpret_cast<const char*>(&cores), sizeof cores);
    const u64 place = hash64(host_name() + std::string(mask));
    return std::max<i64>(1, available_cores() / neighbours_at(world, place).n);
}

i64 ranks_on_host(comm::Group& world) {
    return neighbours_at(world, hash64(host_name())).n;
}

i64 place_on_host(comm::Group& world) {
    return neighbours_at(world, hash64(host_name())).n_before;
}

}  // namespace lm::parallel
