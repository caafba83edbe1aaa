// SPDX-License-Identifier: Apache-2.0
// The few socket calls of the rendezvous, without blocking beyond a deadline.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "base/clock.hpp"
#include "base/types.hpp"
#include "io/file.hpp"

namespace lm::comm {

// Seconds from now, as a point that does not move.
class Deadline {
  public:
    explicit Deadline(double seconds) : end_s_(monotonic_s() + seconds) {}
    double left_s() const { return end_s_ - monotonic_s(); }
    bool passed() const { return left_s() <= 0; }
    Deadline sooner(double seconds) const { return Deadline(std::min(seconds, left_s())); }

  private:
    double end_s_;
};

// A connection, or none; move-only.
class Socket {
  public:
    Socket() = default;
    explicit Socket(int fd) : fd_(fd) {}
    explicit operator bool() const { return fd_.valid(); }
    int fd() const { return fd_.get(); }
    void reset() { fd_ = io::Fd(); }

    // Small pieces leave at once (TCP_NODELAY).
    void send_at_once() const;

    // All of it before the deadline; false: not, with errno (ECONNRESET when the other closed it).
    bool send_all(std::span<const std::byte> bytes, const Deadline& deadline) const;
    bool receive_all(std::span<std::byte> bytes, const Deadline& deadline) const;

  private:
    io::Fd fd_;
};

// On all addresses of this host, IPv6 and IPv4. Throws Error(failure) naming the port.
Socket listen_on(int port);
int port_of(const Socket& listener);

// Tries each address of the host once; none, with the reason in *trouble, when it fails.
Socket connect_to(const std::string& host, int port, const Deadline& deadline,
                  std::string* trouble);

}  // namespace lm::comm
