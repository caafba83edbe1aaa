// SPDX-License-Identifier: Apache-2.0
// TCP sockets for the hub and its ranks. No call blocks beyond a deadline, except that the resolver
// may take some seconds.
#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/types.hpp"
#include "io/file.hpp"

namespace lm::comm {

// Returns the name of the signal that asks this process to stop; nullptr: none.
using StopSignal = std::function<const char*()>;

// A point in time: the time of construction plus `seconds`. Waits also end when there is a stop
// signal.
class Deadline {
  public:
    explicit Deadline(double seconds, StopSignal stop_signal = {})
        : seconds_(seconds),
          end_s_(monotonic_s() + seconds),
          stop_signal_(std::move(stop_signal)) {}
    double seconds() const { return seconds_; }
    double left_s() const { return end_s_ - monotonic_s(); }
    bool passed() const { return left_s() <= 0; }
    const char* stop_signal() const { return stop_signal_ ? stop_signal_() : nullptr; }
    bool ends_waits() const { return passed() || stop_signal() != nullptr; }
    // Returns how long a thread may sleep before it calls ends_waits() again.
    double sleep_s() const { return std::clamp(left_s(), 0.0, stop_signal_ ? 0.2 : 1e3); }
    Deadline sooner(double seconds) const { return {std::min(seconds, left_s()), *this}; }
    Deadline later(double seconds) const { return {left_s() + seconds, *this}; }
    // Sleeps for `seconds`, or until waits end.
    void pause(double seconds) const;

  private:
    Deadline(double seconds, const Deadline& other) : Deadline(seconds, other.stop_signal_) {}

    double seconds_;
    double end_s_;
    StopSignal stop_signal_;
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

    // Sends or receives all bytes before the deadline. On failure returns false and sets errno:
    // ECONNRESET when the other side has closed the connection, ECANCELED after a stop signal.
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

// Listens on the addresses of this host to which the name or address `host` resolves. A name other
// than localhost may resolve to a loopback address (Debian does this for the name of the host
// itself); other hosts do not reach it, so it does not count. When no address remains, such as
// with a NAT or in a container, listens on all addresses and sets *everywhere. With port 0 the
// system picks the port. While the port is not available, tries again until the deadline, because
// the process of an earlier start may be ending; then throws Error(failure) naming the port.
std::vector<Socket> listen_on(const std::string& host, int port, const Deadline& deadline,
                              bool* everywhere);
int port_of(const Socket& listener);

// Returns two connected sockets of this process.
std::array<Socket, 2> socket_pair();

// Tries each address of the host once. When all fail, returns no socket and stores the reason in
// *problem.
Socket connect_to(const std::string& host, int port, const Deadline& deadline,
                  std::string* problem);

}  // namespace lm::comm
