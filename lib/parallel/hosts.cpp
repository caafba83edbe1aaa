// SPDX-License-Identifier: Apache-2.0
#include "parallel/hosts.hpp"

#include <array>

#include <sched.h>

#include <algorithm>
#include <vector>

#include "base/hash.hpp"
#include "base/machine.hpp"
#include "base/threads.hpp"

namespace lm::parallel {
namespace {

// A group that contains all ranks of this rank's place, and possibly ranks of other places. A place
// is a hash of the host, or of the host and the cores.
struct Neighbours {
    std::unique_ptr<comm::Group> group;
    std::vector<u64> places;  // by member
    u64 place;                // place of this rank

    i64 n() const { return std::ranges::count(places, place); }
    i64 n_before() const {
        return std::count(places.begin(), places.begin() + group->rank(), place);
    }
};

// Splits the ranks by some bits of the hash, then gathers the whole hashes within each part, so
// that no rank gathers the places of all ranks.
Neighbours neighbours_at(comm::Group& world, u64 place) {
    Neighbours near{world.split(static_cast<int>(place >> 33), world.rank(), "place"), {}, place};
    const i64 n = near.group->size();
    near.places.resize(static_cast<size_t>(n));
    near.group->all_gather({&place, DType::int64, {1}}, {near.places.data(), DType::int64, {n}});
    return near;
}

u64 place_of_host() {
    return hash64(host_name());
}

}  // namespace

i64 cores_of_rank(comm::Group& world) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    (void)::sched_getaffinity(0, sizeof cores, &cores);
    const std::string_view mask(reinterpret_cast<const char*>(&cores), sizeof cores);
    const u64 place = hash64(host_name() + std::string(mask));
    return std::max<i64>(1, available_cores() / neighbours_at(world, place).n());
}

i64 ranks_on_host(comm::Group& world) {
    return neighbours_at(world, place_of_host()).n();
}

std::unique_ptr<comm::Group> group_of_host(comm::Group& world) {
    const Neighbours near = neighbours_at(world, place_of_host());
    // Hosts whose hashes share the bits of the first split get different colors.
    const auto first = std::ranges::find(near.places, near.place) - near.places.begin();
    return near.group->split(static_cast<int>(first), near.group->rank(), "host");
}

i64 place_on_host(comm::Group& world) {
    return neighbours_at(world, place_of_host()).n_before();
}

std::vector<std::string> hosts_of(comm::Group& world) {
    constexpr i64 size = 64;
    std::array<char, size> own{};
    host_name().copy(own.data(), size - 1);
    std::vector<char> all(static_cast<size_t>(size * world.size()));
    world.all_gather({own.data(), DType::uint8, {size}},
                     {all.data(), DType::uint8, {size * world.size()}});
    std::vector<std::string> hosts;
    for (int rank = 0; rank < world.size(); ++rank)
        hosts.emplace_back(&all[static_cast<size_t>(rank * size)]);
    return hosts;
}

}  // namespace lm::parallel
