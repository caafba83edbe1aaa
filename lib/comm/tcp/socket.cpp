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
#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.hpp"

namespace lm::comm {
namespace {

// Blocks until one of the events happens. Returns false at the deadline (errno ETIMEDOUT) or on an
// error.
bool wait_for(int fd, short events, const Deadline& deadline) {
    while (true) {
        const double left_ms = std::ceil(std::max(deadline.left_s(), 0.0) * 1000);
        pollfd entry{fd, events, 0};
        const int n = poll(&entry, 1, static_cast<int>(std::min(left_ms, 1e6)));
        if (n > 0) return true;
        if (n == 0 && deadline.passed()) {
            errno = ETIMEDOUT;
            return false;
        }
        if (n < 0 && errno != EINTR) return false;
    }
}

Socket bound(int family, int port) {
    Socket listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) return {};
    const int on = 1;
    const int off = 0;
    setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int code = 0;
    if (family == AF_INET6) {
        setsockopt(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        address.sin6_port = htons(static_cast<u16>(port));
        code = bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    } else {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<u16>(port));
        code = bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    }
    if (code != 0 || listen(listener.fd(), SOMAXCONN) != 0) return {};
    return listener;
}

}  // namespace

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

Socket listen_on(int port) {
    Socket listener = bound(AF_INET6, port);
    if (!listener && errno != EADDRINUSE) listener = bound(AF_INET, port);  // a host without IPv6
    if (!listener) {
        run_error(fmt::format("port {}", port), "cannot listen: {}: choose another MASTER_PORT",
                  std::strerror(errno));
    }
    return listener;
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
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (code != 0) {
        *problem = gai_strerror(code);
        return {};
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
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
        if (error == 0) return connection;
        *problem = std::strerror(error);
    }
    return {};
}

}  // namespace lm::comm
