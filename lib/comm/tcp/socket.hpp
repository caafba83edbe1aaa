// SPDX-License-Identifier: Apache-2.0
// The few socket calls of the rendezvous, without blocking beyond a deadline.
#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <array>
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

    // Small pieces leave at once (TCP_NODELAY), and a machine at the other end that is gone without
    // a word is noticed within two minutes (reading then fails with ETIMEDOUT).
    void tune() const;

    // All of it before the deadline; false: not, with errno (ECONNRESET when the other closed it).
    bool send_all(std::span<const std::byte> bytes, const Deadline& deadline) const;
    bool receive_all(std::span<std::byte> bytes, const Deadline& deadline) const;

  private:
    io::Fd fd_;
};

// Which of many sockets have something to do: the cost of a wait is that of what happens, not of
// how many there are. A socket that is closed is forgotten.
class Poller {
  public:
    Poller();
    void add(int fd);
    // Whether to tell when `fd` can be written, too.
    void watch_writing(int fd, bool on);
    // What happened within so long; valid until the next call.
    std::span<const epoll_event> wait(double seconds);

  private:
    io::Fd fd_;
    std::array<epoll_event, 512> events_{};
};

// Lets this process open so many connections at a time. Throws Error(failure) saying what is needed
// when the hard limit on open files is lower.
void allow_connections(i64 n);

// On all addresses of this host, IPv6 and IPv4. Throws Error(failure) naming the port.
Socket listen_on(int port);
int port_of(const Socket& listener);

// Tries each address of the host once; none, with the reason in *trouble, when it fails.
Socket connect_to(const std::string& host, int port, const Deadline& deadline,
                  std::string* trouble);

}  // namespace lm::comm
