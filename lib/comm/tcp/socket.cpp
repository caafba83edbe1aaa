// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.hpp"

namespace lm::comm {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Blocks until one of the events happens. Returns false at the deadline (errno ETIMEDOUT), after a
// stop signal (ECANCELED), or on an error.
bool wait_for(int fd, short events, const Deadline& deadline) {
    while (true) {
        pollfd entry{fd, events, 0};
        const int n = poll(&entry, 1, static_cast<int>(std::ceil(deadline.sleep_s() * 1000)));
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
        if (deadline.ends_waits()) {
            errno = deadline.passed() ? ETIMEDOUT : ECANCELED;
            return false;
        }
    }
}

// Returns the addresses of the host. When there are none, returns nullptr and stores the reason.
Addresses resolve(const std::string& host, int port, std::string* problem) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (code != 0) *problem = gai_strerror(code);
    return {code == 0 ? found : nullptr, &freeaddrinfo};
}

bool is_loopback(const sockaddr* address) {
    if (address->sa_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
    }
    constexpr u32 network = 127;
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == network;
}

bool means_loopback(const std::string& host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void set_port(sockaddr* address, int port) {
    const auto number = htons(static_cast<u16>(port));
    if (address->sa_family == AF_INET6) {
        reinterpret_cast<sockaddr_in6*>(address)->sin6_port = number;
    } else {
        reinterpret_cast<sockaddr_in*>(address)->sin_port = number;
    }
}

// Listens on an address. Returns no socket and sets errno when this is not possible.
Socket bound(const sockaddr* address, socklen_t size, bool also_ipv4 = false) {
    Socket listener(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) return {};
    const int on = 1;
    const int ipv6_only = also_ipv4 ? 0 : 1;
    setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->sa_family == AF_INET6) {
        setsockopt(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &ipv6_only, sizeof ipv6_only);
    }
    if (bind(listener.fd(), address, size) != 0 || listen(listener.fd(), SOMAXCONN) != 0) return {};
    return listener;
}

Socket bound_everywhere(int port) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<u16>(port));
    Socket listener = bound(reinterpret_cast<const sockaddr*>(&six), sizeof six, true);
    if (listener || errno == EADDRINUSE) return listener;
    sockaddr_in four{};  // a host without IPv6
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<u16>(port));
    return bound(reinterpret_cast<const sockaddr*>(&four), sizeof four);
}

// Returns the listeners on the addresses of `host` that this host has. When the port is taken,
// returns none and sets errno to EADDRINUSE; when no address serves, errno is EADDRNOTAVAIL.
std::vector<Socket> bound_to(const std::string& host, int port) {
    std::string problem;
    const Addresses addresses = resolve(host, port, &problem);
    std::vector<Socket> listeners;
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
        if (is_loopback(a->ai_addr) && !means_loopback(host)) continue;
        if (!listeners.empty()) set_port(a->ai_addr, port_of(listeners[0]));
        if (Socket listener = bound(a->ai_addr, a->ai_addrlen)) {
            listeners.push_back(std::move(listener));
        } else if (errno == EADDRINUSE && listeners.empty()) {
            return {};
        }
    }
    errno = EADDRNOTAVAIL;
    return listeners;
}

// Returns whether the connection's two ends are the same socket. This happens when a process
// connects to an unused port of its own host and the system gives the connection the same port.
bool is_to_itself(const Socket& connection) {
    sockaddr_storage near{}, far{};
    socklen_t near_size = sizeof near, far_size = sizeof far;
    return getsockname(connection.fd(), reinterpret_cast<sockaddr*>(&near), &near_size) == 0 &&
           getpeername(connection.fd(), reinterpret_cast<sockaddr*>(&far), &far_size) == 0 &&
           near_size == far_size && std::memcmp(&near, &far, near_size) == 0;
}

}  // namespace

void Deadline::pause(double seconds) const {
    const Deadline end = sooner(seconds);
    while (!end.ends_waits()) {
        std::this_thread::sleep_for(std::chrono::duration<double>(end.sleep_s()));
    }
}

bool would_block() {
    return errno == EAGAIN || errno == EINTR;
}

void Socket::tune() const {
    constexpr int on = 1;
    constexpr int idle_s = 60;
    constexpr int apart_s = 10;
    constexpr int n_probes = 6;
    setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd(), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd(), IPPROTO_TCP, TCP_KEEPINTVL, &apart_s, sizeof apart_s);
    setsockopt(fd(), IPPROTO_TCP, TCP_KEEPCNT, &n_probes, sizeof n_probes);
}

bool Socket::send_all(std::span<const std::byte> bytes, const Deadline& deadline) const {
    while (!bytes.empty()) {
        const ssize_t n = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
        if (n < 0 && !would_block()) return false;
        if (n <= 0 && !wait_for(fd(), POLLOUT, deadline)) return false;
    }
    return true;
}

bool Socket::receive_all(std::span<std::byte> bytes, const Deadline& deadline) const {
    while (!bytes.empty()) {
        const ssize_t n = recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
        if (n == 0) {
            errno = ECONNRESET;
            return false;
        }
        if (n < 0 && !would_block()) return false;
        if (n < 0 && !wait_for(fd(), POLLIN, deadline)) return false;
    }
    return true;
}

Poller::Poller() : fd_(epoll_create1(EPOLL_CLOEXEC)) {
    if (!fd_.valid()) run_error("epoll", "{}", std::strerror(errno));
}

void Poller::add(int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        run_error("epoll", "{}", std::strerror(errno));
    }
}

void Poller::watch_writing(int fd, bool on) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (on) event.events |= EPOLLOUT;
    epoll_ctl(fd_.get(), EPOLL_CTL_MOD, fd, &event);
}

std::span<const epoll_event> Poller::wait(double seconds) {
    const auto ms = static_cast<int>(std::ceil(std::clamp(seconds, 0.0, 1e3) * 1e3));
    const int n = epoll_wait(fd_.get(), events_.data(), static_cast<int>(events_.size()), ms);
    return {events_.data(), static_cast<size_t>(std::max(n, 0))};
}

void allow_connections(i64 n) {
    constexpr i64 other_files = 256;  // files of logs, data, checkpoints and libraries
    const auto wanted = static_cast<rlim_t>(n + other_files);
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
    if (limit.rlim_max < wanted) {
        run_error("rank 0",
                  "needs {} connections, but the limit of open files is {}: raise the hard limit "
                  "(ulimit -Hn, LimitNOFILE= of slurmd) to {} or more",
                  n, limit.rlim_max, wanted);
    }
    // The limit is not raised further than needed, because a child process may close all possible
    // descriptors in a loop.
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

std::vector<Socket> listen_on(const std::string& host, int port, const Deadline& deadline,
                              bool* everywhere) {
    constexpr double pause_s = 0.2;
    while (true) {
        std::vector<Socket> listeners = bound_to(host, port);
        *everywhere = listeners.empty() && errno != EADDRINUSE;
        if (*everywhere) {
            if (Socket listener = bound_everywhere(port)) listeners.push_back(std::move(listener));
        }
        if (!listeners.empty()) return listeners;
        if (errno != EADDRINUSE || deadline.ends_waits()) {
            run_error(fmt::format("port {}", port), "cannot listen: {}: choose another MASTER_PORT",
                      std::strerror(errno));
        }
        deadline.pause(pause_s);
    }
}

std::array<Socket, 2> socket_pair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        run_error("socketpair", "{}", std::strerror(errno));
    }
    return {Socket(ends[0]), Socket(ends[1])};
}

int port_of(const Socket& listener) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &size);
    const bool six = address.ss_family == AF_INET6;
    return ntohs(six ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Socket connect_to(const std::string& host, int port, const Deadline& deadline,
                  std::string* problem) {
    const Addresses addresses = resolve(host, port, problem);
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
        Socket connection(
            socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol));
        if (!connection) continue;
        int error = connect(connection.fd(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
        if (error == EINPROGRESS) {
            socklen_t size = sizeof error;
            if (!wait_for(connection.fd(), POLLOUT, deadline) ||
                getsockopt(connection.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
                error = errno;
            }
        }
        if (error == 0 && is_to_itself(connection)) error = ECONNREFUSED;
        if (error == 0) return connection;
        *problem = std::strerror(error);
    }
    return {};
}

}  // namespace lm::comm
