// SPDX-License-Identifier: Apache-2.0
// TCP sockets for the hub and its ranks. No call blocks beyond a deadline.
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

// A point in time: the time of construction plus `seconds`.
class Deadline {
  public:
    explicit Deadline(double seconds) : end_s_(monotonic_s() + seconds) {}
    double left_s() const { return end_s_ - monotonic_s(); }
    bool passed() const { return left_s() <= 0; }
    Deadline sooner(double seconds) const { return Deadline(std::min(seconds, left_s())); }

  private:
    double end_s_;
};

// Owns one connection or none. Move-only.
class Socket {
  public:
    Socket() = default;
    explicit Socket(int fd) : fd_(fd) {}
    explicit operator bool() const { return fd_.valid(); }
    int fd() const { return fd_.get(); }
    void reset() { fd_ = io::Fd(); }

    // Makes the system send small writes at once (TCP_NODELAY) and detect the loss of the other
    // machine within two minutes (keepalive). Reads then fail with ETIMEDOUT.
    void tune() const;

    // Sends or receives all bytes before the deadline. On failure returns false and sets errno;
    // errno is ECONNRESET when the other side has closed the connection.
    bool send_all(std::span<const std::byte> bytes, const Deadline& deadline) const;
    bool receive_all(std::span<std::byte> bytes, const Deadline& deadline) const;

  private:
    io::Fd fd_;
};

// Returns whether errno means that the call may be repeated later (EAGAIN, EINTR).
bool would_block();

// Waits for events of many sockets with epoll(7). The time of a wait is proportional to the number
// of events, not to the number of sockets. The system removes a closed socket from the poller.
class Poller {
  public:
    Poller();
    void add(int fd);  // wait() then reports when `fd` can be read
    // While `on`, wait() also reports when `fd` can be written.
    void watch_writing(int fd, bool on);
    // Blocks for `seconds` at most. Returns the events, which are valid until the next call.
    std::span<const epoll_event> wait(double seconds);

  private:
    io::Fd fd_;
    std::array<epoll_event, 512> events_{};
};

// Raises this process's soft limit on open files, so that it can hold `n` connections. Throws
// Error(failure) that names the needed limit when the hard limit is lower.
void allow_connections(i64 n);

// Listens on all addresses of this host, IPv6 and IPv4. With port 0 the system picks the port.
// Throws Error(failure) naming the port when it is not available.
Socket listen_on(int port);
int port_of(const Socket& listener);

// Tries each address of the host once. When all fail, returns no socket and stores the reason in
// *problem.
Socket connect_to(const std::string& host, int port, const Deadline& deadline,
                  std::string* problem);

}  // namespace lm::comm
