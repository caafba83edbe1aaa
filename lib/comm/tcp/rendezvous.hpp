// SPDX-License-Identifier: Apache-2.0
// Joins the ranks of a job without MPI to the hub on rank 0 (comm/tcp/hub.hpp). Each rank connects
// to the hub's address; rank and hub prove to each other that they know the job's token
// (comm/tcp/proof.hpp). When the last rank has connected, the hub sends a welcome to all ranks.
#pragma once

#include <string>

#include "base/types.hpp"
#include "comm/tcp/socket.hpp"

namespace lm::comm {

struct Meeting {
    int rank = 0;
    int size = 1;
    std::string host;  // name or address of rank 0's host, IPv4 or IPv6
    int port = 0;      // the hub's port; 0: the system picks one
    // Equal on all ranks of a job. Empty: rank 0 makes a random token, which the other ranks read
    // in the file `token_file`, or in the agent's store if there is no such file.
    std::string token;
    std::string token_file;
    // Not empty: the agent of torchrun serves a store at `port`. The value of this key has the
    // hub's port, and the token if it is not in token_file.
    std::string store_key;
};

// Returns "rendezvous at n1:24561".
std::string place_of(const Meeting& meeting);

// Rank 0 calls it when the hub listens at `port`: stores the port, and the token if the other ranks
// have no other way to get it, in the agent's store. Does nothing without a store_key. Throws
// Error(failure).
void publish(const Meeting& meeting, int port, const Deadline& deadline);

// Connects a rank other than 0 to the hub, with as many attempts as needed, and blocks until all
// ranks have connected. Returns the connection. Throws Error(failure) with the reason that the hub
// sends, such as the list of the missing ranks. If the hub has not answered at the deadline, the
// error has the reason of the last attempt. Throws JointError(run_again) after a stop signal.
// Collective.
Socket join_hub(const Meeting& meeting, const Deadline& deadline);

// Blocks until the hub sends a welcome to a rank that it has admitted. Returns false when the
// connection has ended before. Throws like join_hub().
bool wait_for_welcome(const Socket& socket, const Meeting& meeting, const Deadline& deadline);

}  // namespace lm::comm
