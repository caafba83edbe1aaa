// SPDX-License-Identifier: Apache-2.0
// Runs rank threads in virtual time. This simulation takes milliseconds, and computes how long a
// schedule would take on given links. The result is the same on every machine. Each rank has a
// clock, and VirtualClock::advance() adds the time of a computation to the clock. An operation
// takes the time of the link model, on its own channel, while its ranks continue. Waiting for an
// operation moves the clock to the end of the operation. The threads backend also moves the real
// data.
//
// - A message enters the channel from its sender to its receiver as soon as it was sent and the
//   channel is free. It occupies the channel for bytes / bytes_per_s, and arrives latency_s later.
//   The sender may reuse its memory when the message has left the channel.
// - A collective begins when the last member has started it and the group's previous collective has
//   ended.
// - Channels do not share bandwidth with each other.
// - Work::done() is false before the operation has ended by this rank's clock. It may also be false
//   for longer, while the real data is being copied, so no schedule may depend on done().
#pragma once

#include <limits>
#include <vector>

#include "comm/operation.hpp"

namespace lm::comm {

struct LinkModel {
    double latency_s = 0;
    double bytes_per_s = std::numeric_limits<double>::infinity();

    double transfer_s(double bytes) const { return bytes / bytes_per_s; }
    // Returns the time of a collective among n ranks. all_gather and reduce_scatter are rings: n -
    // 1 steps that each move one part; all_reduce takes the time of a reduce_scatter and an
    // all_gather. broadcast, whose data is pipelined, and barrier are trees (Thakur, Rabenseifner,
    // Gropp: Optimization of Collective Communication Operations in MPICH, 2005).
    double collective_s(const Operation& operation, int n_ranks) const;
};

// The clocks of all ranks. Only a rank's own thread uses its clock.
struct VirtualTime {
    LinkModel links;
    std::vector<double> now_s;
};

// The clock of one rank. Only the thread of this rank uses it.
class VirtualClock {
  public:
    explicit VirtualClock(double& now_s) : now_s_(now_s) {}
    double now_s() const { return now_s_; }
    void advance(double seconds) { now_s_ += seconds; }  // computing

  private:
    double& now_s_;
};

}  // namespace lm::comm
