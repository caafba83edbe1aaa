// SPDX-License-Identifier: Apache-2.0
// Hands a small blob, such as an NCCL id, from rank 0 to all ranks over TCP, where nothing else
// connects them yet. It carries no tensors. All get it at the moment when all have come, or all
// that came learn who did not. The connections stay with those who want them (tcp/world.hpp), so
// that a job of thousands of ranks connects once.
//
// Connections that do not speak the protocol, or belong to another job, are dropped. A rank that is
// started again may come again. The token keeps others out by mistake; it is no defence against
// somebody who reads the network.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "comm/tcp/socket.hpp"

namespace lm::comm {

struct Meeting {
    int rank = 0;
    int size = 1;
    std::string host;   // of rank 0: a name or an address, IPv4 or IPv6
    int port = 0;       // rank 0 listens there; with 0 on one that the system picks
    std::string token;  // the same for all ranks of a job
};

// Rank 0: listens from the construction on, so that tests know the port.
class RendezvousHost {
  public:
    explicit RendezvousHost(const Meeting& meeting);
    ~RendezvousHost();
    RendezvousHost(const RendezvousHost&) = delete;
    RendezvousHost& operator=(const RendezvousHost&) = delete;

    int port() const;
    i64 n_connections() const { return n_came_; }  // accepted so far
    // Returns the connections, by rank (that of rank 0 is none), when the blob is on its way to all
    // (at most 64 KiB). Throws Error(failure) naming the ranks that did not come; those that did
    // are told the same.
    std::vector<Socket> hand_out(std::span<const std::byte> blob, double timeout_s);

  private:
    struct Guest;
    void accept_guests();
    bool accept_one();
    void drop(int fd);
    void drop_strangers();
    bool read_hello(Guest& guest);
    bool admit(Guest& guest);
    void poll_once(double seconds);
    std::vector<int> missing() const;

    Meeting meeting_;
    Socket listener_;
    Poller poller_;
    std::map<int, Guest> guests_;  // by descriptor
    std::set<std::pair<i64, int>>
        strangers_;             // of these without a rank: when they came, descriptor
    std::vector<int> by_rank_;  // descriptors; -1: not here
    int n_here_ = 1;            // ranks, with rank 0
    i64 n_came_ = 0;
};

// The other ranks: connects as often as needed until rank 0 has handed out the blob; the connection
// goes to *kept, if that is wanted. Throws Error(failure) with what rank 0 said, or with the last
// trouble when it does not answer.
std::vector<std::byte> receive_from_host(const Meeting& meeting, double timeout_s,
                                         Socket* kept = nullptr);

// Both, by rank. `blob` counts on rank 0 only.
std::vector<std::byte> rendezvous(const Meeting& meeting, std::span<const std::byte> blob,
                                  double timeout_s);

}  // namespace lm::comm
