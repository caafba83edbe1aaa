// SPDX-License-Identifier: Apache-2.0
// Hands a small blob, such as an NCCL id, from rank 0 to all ranks over TCP, where nothing else
// connects them yet. It carries no tensors. All get it at the moment when all have come, or all
// that came learn who did not.
//
// Connections that do not speak the protocol, or belong to another job, are dropped. A rank that is
// started again may come again. The token keeps others out by mistake; it is no defence against
// somebody who reads the network.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::comm {

struct Meeting {
    int rank = 0;
    int size = 1;
    std::string host;   // of rank 0: a name or an address, IPv4 or IPv6
    int port = 0;       // rank 0 listens there; with 0 on one that the system picks
    std::string token;  // the same for all ranks of a job
};

// From RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; else from SLURM_PROCID, SLURM_NTASKS and the
// first host of the step's node list, with a port made from the job's number (MASTER_ADDR and
// MASTER_PORT override both). The token is LM_RENDEZVOUS_TOKEN, else made of the job's number.
// nullopt: nothing of it is set. Throws Error(usage) naming the variable that is missing or wrong.
// `get` stands for getenv().
using Environment = std::function<const char*(const char* name)>;
std::optional<Meeting> meeting_of(const Environment& get);

// "n[07-12,15],m3": "n07".
std::string first_host(const std::string& node_list);

// Rank 0: listens from the construction on, so that tests know the port.
class RendezvousHost {
  public:
    explicit RendezvousHost(const Meeting& meeting);
    ~RendezvousHost();
    RendezvousHost(const RendezvousHost&) = delete;
    RendezvousHost& operator=(const RendezvousHost&) = delete;

    int port() const;
    // Returns when the blob is on its way to all (at most 64 KiB). Throws Error(failure) naming the
    // ranks that did not come; those that did are told the same.
    void hand_out(std::span<const std::byte> blob, double timeout_s);

  private:
    struct Guest;
    struct Listener;
    void accept_guests();
    bool read_hello(Guest& guest);
    bool admit(Guest& guest);
    void poll_once(double seconds);
    std::vector<int> missing() const;

    Meeting meeting_;
    std::unique_ptr<Listener> listener_;
    std::vector<Guest> guests_;
};

// The other ranks: connects as often as needed until rank 0 has handed out the blob. Throws
// Error(failure) with what rank 0 said, or with the last trouble when it does not answer.
std::vector<std::byte> receive_from_host(const Meeting& meeting, double timeout_s);

// Both, by rank. `blob` counts on rank 0 only.
std::vector<std::byte> rendezvous(const Meeting& meeting, std::span<const std::byte> blob,
                                  double timeout_s);

}  // namespace lm::comm
