// SPDX-License-Identifier: Apache-2.0
// Joins the ranks of a job without MPI to the hub on rank 0 (comm/tcp/hub.hpp). Each rank connects
// to the hub's address and sends a hello. When the last rank has connected, the hub sends a welcome
// to all ranks.
#pragma once

#include <array>
#include <string>

#include "base/types.hpp"
#include "comm/tcp/socket.hpp"

namespace lm::comm {

struct Meeting {
    int rank = 0;
    int size = 1;
    std::string host;  // name or address of rank 0's host, IPv4 or IPv6
    int port = 0;      // the hub's port; 0: the system picks one
    // Equal on all ranks of a job. The token separates jobs that use the same port by mistake. It
    // does not protect against an attacker, who can read it on the network.
    std::string token;
};

// Returns "rendezvous at n1:24561".
std::string place_of(const Meeting& meeting);

// Returns the digest of the token, which a hello contains.
std::array<char, 40> token_digest(const Meeting& meeting);

constexpr char hello_magic[8] = {'l', 'm', '-', 'm', 'e', 'e', 't', '2'};

// Connects to the hub, with as many attempts as needed, and blocks until all ranks have connected.
// Returns the connection. Throws Error(failure) with the reason that the hub sends, such as the
// list of the missing ranks. If the hub has not answered within `timeout_s`, the error has the
// reason of the last attempt. Collective.
Socket join_hub(const Meeting& meeting, double timeout_s);

}  // namespace lm::comm
