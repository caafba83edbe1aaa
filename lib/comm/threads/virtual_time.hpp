// SPDX-License-Identifier: Apache-2.0
// Rank threads in virtual time: how long a schedule would take on given links, computed in
// milliseconds and the same on every machine. Each rank has a clock, which computing advances. An
// operation takes the time of the link model, on a channel of its own, while its ranks continue;
// waiting for it moves the clock to its end. Real data moves too, through the threads backend.
//
// - A message enters the channel from its sender to its receiver when it was sent and the channel
//   is free, occupies it for bytes / bytes_per_s, and has arrived latency_s after that. The sender
//   may use its memory again when the message has left the channel.
// - A collective begins when the last member has started it and the group's previous one has ended.
// - Channels do not share bandwidth with each other.
// - Work::done() is false before the operation has ended by this rank's clock. It may be false
// later
//   too, while the real data is being copied: no schedule may depend on it.
#pragma once

#include <limits>
#include <vector>

#include "comm/operation.hpp"

namespace lm::comm {

struct LinkModel {
    double latency_s = 0;
    double bytes_per_s = std::numeric_limits<double>::infinity();

    double transfer_s(double bytes) const { return bytes / bytes_per_s; }
    // Returns the time of a collective among n ranks. Rings: all_gather and reduce_scatter take
    // n - 1 steps that each move one part, all_reduce both. Trees: broadcast, its data in a
    // pipeline, and barrier (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication
    // Operations in MPICH, 2005).
    double collective_s(const Operation& operation, int n_ranks) const;
};

// The clocks of all ranks; each is used by its own rank's thread only.
struct VirtualTime {
    LinkModel links;
    std::vector<double> now_s;
};

// This rank's clock.
class VirtualClock {
  public:
    explicit VirtualClock(double& now_s) : now_s_(now_s) {}
    double now_s() const { return now_s_; }
    void advance(double seconds) { now_s_ += seconds; }  // computing

  private:
    double& now_s_;
};

}  // namespace lm::comm
