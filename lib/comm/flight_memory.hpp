// SPDX-License-Identifier: Apache-2.0
// The flight recorders of this host's processes, found through /proc and mapped to be read. The
// memory of a recorder is an anonymous file, so it can be read while its process is stopped, and
// nothing is left when the process has ended.
#pragma once

#include <memory>
#include <vector>

#include "comm/flight_ring.hpp"

namespace lm::comm {

// Maps a new zeroed anonymous file with room for a FlightRing. Returns nullptr when the system
// refuses. The descriptor stays open until the process ends, because other processes find the file
// through it.
void* map_new_ring();

struct UnmapRing {
    void operator()(const FlightRing* ring) const;
};
using MappedRing = std::unique_ptr<const FlightRing, UnmapRing>;

// Returns the recorders of the processes of this host, of this user, that belong to `run`.
std::vector<MappedRing> rings_on_host(i64 run);

}  // namespace lm::comm
