// SPDX-License-Identifier: Apache-2.0
// A port at which a hub of a test can listen.
#pragma once

#include <unistd.h>

#include "base/error.hpp"
#include "comm/tcp/socket.hpp"

namespace lm::test {

// Returns a port outside of the ephemeral range: a rank that connects to an ephemeral port before
// the hub listens may get the same port for its own end.
inline int free_port() {
    for (int port = 20000 + ::getpid() % 12000;; ++port) {
        try {
            bool everywhere = false;
            (void)comm::listen_on("localhost", port, comm::Deadline(0), &everywhere);
            return port;
        } catch (const Error&) {  // the port is taken
        }
    }
}

}  // namespace lm::test
