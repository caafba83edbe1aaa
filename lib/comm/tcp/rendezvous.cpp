// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/rendezvous.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/machine.hpp"
#include "base/rng.hpp"
#include "comm/tcp/frame.hpp"

namespace lm::comm {
namespace {

constexpr double connect_s = 5;
constexpr double first_pause_s = 0.05;
constexpr double longest_pause_s = 1;
// The hub and the ranks have the same time limit, but the ranks wait extra_wait_s longer, so that
// they receive the hub's list of missing ranks.
constexpr double extra_wait_s = 5;
constexpr u32 longest_reason = 64 << 10;

Hello hello_of(const Meeting& meeting) {
    Hello hello{};
    std::memcpy(hello.magic, hello_magic, sizeof hello_magic);
    const auto token = token_digest(meeting);
    std::memcpy(hello.token, token.data(), token.size());
    hello.size = meeting.size;
    const std::string host = host_name();
    std::memcpy(hello.host, host.data(), std::min(host.size(), sizeof hello.host - 1));
    return hello;
}

// Tries once to join the hub. When a later attempt may succeed, returns no socket and stores the
// reason in *problem. Throws Error(failure) when the hub refuses this rank.
Socket attempt(const Meeting& meeting, const Deadline& deadline, std::string* problem) {
    // Rank 0 connects to the loopback address, because the address that the other ranks use need
    // not be reachable from rank 0 itself.
    const std::string& host = meeting.rank == 0 ? "127.0.0.1" : meeting.host;
    Socket socket = connect_to(host, meeting.port, deadline.sooner(connect_s), problem);
    if (!socket) return {};
    const Hello hello = hello_of(meeting);
    const Frame first{
        .kind = FrameKind::hello, .from = meeting.rank, .n_bytes = static_cast<u32>(sizeof hello)};
    const Deadline reply_by(deadline.left_s() + extra_wait_s);
    Frame reply;
    if (!socket.send_all(std::as_bytes(std::span(&first, 1)), deadline) ||
        !socket.send_all(std::as_bytes(std::span(&hello, 1)), deadline) ||
        !socket.receive_all(std::as_writable_bytes(std::span(&reply, 1)), reply_by)) {
        *problem = errno == ETIMEDOUT
                       ? "rank 0 waits for other ranks"
                       : "rank 0 closed the connection: another job may use this port";
        return {};
    }
    if (reply.kind == FrameKind::welcome) return socket;
    if (reply.kind != FrameKind::failure || reply.n_bytes > longest_reason) {
        *problem = "another program listens at this port";
        return {};
    }
    FrameBytes reason(reply.n_bytes);
    if (socket.receive_all(reason, reply_by)) {
        run_error(place_of(meeting), "{}", text_of_bytes(reason));
    }
    *problem = std::strerror(errno);
    return {};
}

}  // namespace

std::string place_of(const Meeting& meeting) {
    const bool six = meeting.host.find(':') != std::string::npos;
    return fmt::format("rendezvous at {}:{}", six ? "[" + meeting.host + "]" : meeting.host,
                       meeting.port);
}

std::array<char, 40> token_digest(const Meeting& meeting) {
    std::array<char, 40> token{};
    const std::string text = digest(std::string_view(meeting.token));
    std::memcpy(token.data(), text.data(), std::min(text.size(), token.size()));
    return token;
}

Socket join_hub(const Meeting& meeting, double timeout_s) {
    const Deadline deadline(timeout_s);
    std::string problem;
    double pause_s = first_pause_s;
    for (u64 n_attempts = 1; !deadline.passed(); ++n_attempts) {
        if (Socket socket = attempt(meeting, deadline, &problem)) {
            socket.tune();
            return socket;
        }
        // The pause is 50 to 150 % of pause_s, different on each rank, so that the ranks do not all
        // try at the same time.
        const u64 mixed = mix(static_cast<u64>(meeting.rank), n_attempts);
        const double share = 0.5 + static_cast<double>(mixed >> 11) * 0x1p-53;
        const double left_s = std::max(deadline.left_s(), 0.0);
        std::this_thread::sleep_for(
            std::chrono::duration<double>(std::min(share * pause_s, left_s)));
        pause_s = std::min(2 * pause_s, longest_pause_s);
    }
    run_error(place_of(meeting), "rank 0 did not answer rank {} within {} s: {}", meeting.rank,
              timeout_s, problem);
}

}  // namespace lm::comm
