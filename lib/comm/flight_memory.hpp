// SPDX-License-Identifier: Apache-2.0
// The flight recorders of this host's processes, found through /proc and mapped for reading. The
// memory of a recorder is an anonymous file, so it can be read while its process is stopped, and
// the system frees it when the process ends.
#pragma once

#include <memory>
#include <vector>

#include "comm/flight_ring.hpp"

namespace lm::comm {

// Maps a new zeroed anonymous file of the size of a FlightRing. Returns nullptr when the system
// refuses. The descriptor stays open until the process ends, because other processes find the file
// through it.
void* map_new_ring();

struct UnmapRing {
    void operator()(const FlightRing* ring) const;
};
using MappedRing = std::unique_ptr<const FlightRing, UnmapRing>;

// Returns the recorders that this user's processes on this host have for run `run`.
std::vector<MappedRing> rings_on_host(i64 run);

}  // namespace lm::comm
