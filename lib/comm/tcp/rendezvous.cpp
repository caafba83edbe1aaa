// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/rendezvous.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "base/machine.hpp"
#include "base/rng.hpp"
#include "comm/tcp/frame.hpp"
#include "comm/tcp/proof.hpp"
#include "comm/tcp/token_file.hpp"
#include "comm/tcp/torch_store.hpp"

namespace lm::comm {
namespace {

constexpr double connect_s = 5;
constexpr double first_pause_s = 0.05;
constexpr double longest_pause_s = 1;
// The hub and the ranks have the same time limit, but the ranks wait extra_wait_s longer, so that
// they receive the hub's list of missing ranks.
constexpr double extra_wait_s = 5;
constexpr i64 max_port = 65535;

Hello hello_of(const Meeting& meeting) {
    Hello hello{};
    std::memcpy(hello.magic, hello_magic, sizeof hello_magic);
    hello.nonce = random_nonce();
    hello.size = meeting.size;
    const std::string host = host_name();
    std::memcpy(hello.host, host.data(), std::min(host.size(), sizeof hello.host - 1));
    return hello;
}

template <typename T>
bool send(const Socket& socket, FrameKind kind, int rank, const T& value,
          const Deadline& deadline) {
    const Frame frame{.kind = kind, .from = rank, .n_bytes = static_cast<u32>(sizeof value)};
    return socket.send_all(std::as_bytes(std::span(&frame, 1)), deadline) &&
           socket.send_all(std::as_bytes(std::span(&value, 1)), deadline);
}

// Receives the hub's next frame, and its bytes. Returns nullopt and sets errno on failure.
struct Reply {
    Frame frame;
    FrameBytes bytes;
};
std::optional<Reply> receive(const Socket& socket, const Deadline& deadline) {
    Reply reply;
    if (!socket.receive_all(std::as_writable_bytes(std::span(&reply.frame, 1)), deadline)) {
        return std::nullopt;
    }
    errno = EPROTO;
    if (reply.frame.n_bytes > max_text_bytes) return std::nullopt;
    reply.bytes.resize(reply.frame.n_bytes);
    if (!socket.receive_all(reply.bytes, deadline)) return std::nullopt;
    return reply;
}

// Reads the hub's port, and the token if this rank does not have it, in the agent's store. Returns
// false and stores the reason in *problem on failure.
bool look_up(Meeting& meeting, const Deadline& deadline, std::string* problem) {
    if (meeting.store_key.empty()) return true;
    std::optional<TorchStore> store =
        TorchStore::connect(meeting.host, meeting.port, deadline, problem);
    if (!store) return false;
    const std::optional<std::string> value = store->get(meeting.store_key, deadline);
    if (!value) {
        *problem = errno == ETIMEDOUT ? "rank 0 has not written its port to torchrun's store"
                                      : fmt::format("torchrun's store: {}", std::strerror(errno));
        return false;
    }
    const size_t space = std::min(value->find(' '), value->size());
    const auto [end, error] = std::from_chars(value->data(), value->data() + space, meeting.port);
    if (error != std::errc() || end != value->data() + space || meeting.port < 1 ||
        meeting.port > max_port) {
        *problem = "torchrun's store has no port";
        return false;
    }
    if (meeting.token.empty()) meeting.token = value->substr(std::min(space + 1, value->size()));
    return true;
}

// Proves to the hub that this rank knows the token, and checks the hub's proof. Returns false and
// stores the reason in *problem on failure. Rank 0 writes the file of the token before it listens,
// so the file is read only when the hub has answered.
bool authenticate(const Socket& socket, Meeting& meeting, const Deadline& deadline,
                  std::string* problem) {
    const Hello hello = hello_of(meeting);
    std::optional<Reply> reply;
    if (send(socket, FrameKind::hello, meeting.rank, hello, deadline)) {
        reply = receive(socket, deadline);
    }
    if (!reply || reply->frame.kind != FrameKind::challenge ||
        reply->bytes.size() != sizeof(Challenge)) {
        *problem = errno == ETIMEDOUT ? "the program at this port does not answer"
                                      : "another program listens at this port";
        return false;
    }
    const auto challenge = read_as<Challenge>(reply->bytes);
    if (!meeting.token_file.empty()) meeting.token = TokenFile::read(meeting.token_file);
    // Anyone can prove an empty token.
    if (meeting.token.empty()) {
        *problem = meeting.token_file.empty()
                       ? "torchrun's store has no token"
                       : meeting.token_file +
                             " is missing, or other users can read it: share the directory "
                             "between all hosts";
        return false;
    }
    const auto proof = [&](Prover prover) {
        return prove(meeting.token, prover, meeting.rank, hello, challenge.nonce);
    };
    if (!is_equal(challenge.proof, proof(Prover::hub))) {
        *problem =
            "rank 0 has another token: another job uses this port, or " +
            (meeting.token_file.empty() ? "LM_RENDEZVOUS_TOKEN is not equal on all ranks"
                                        : meeting.token_file + " is not shared by all hosts");
        return false;
    }
    if (send(socket, FrameKind::proof, meeting.rank, proof(Prover::rank), deadline)) return true;
    *problem = std::strerror(errno);
    return false;
}

// Tries once to join the hub. When a later attempt may succeed, returns no socket and stores the
// reason in *problem.
Socket attempt(Meeting meeting, const Deadline& deadline, std::string* problem) {
    if (!look_up(meeting, deadline, problem)) return {};
    const Deadline connect_by = deadline.sooner(connect_s);
    Socket socket = connect_to(meeting.host, meeting.port, connect_by, problem);
    if (!socket || !authenticate(socket, meeting, connect_by, problem)) return {};
    return socket;
}

void check_stop(const Meeting& meeting, const Deadline& deadline) {
    const char* const signal = deadline.stop_signal();
    if (signal == nullptr) return;
    throw JointError(Exit::run_again,
                     fmt::format("{}: {}: stopped while waiting for the other ranks",
                                 place_of(meeting), signal));
}

}  // namespace

std::string place_of(const Meeting& meeting) {
    const bool six = meeting.host.find(':') != std::string::npos;
    return fmt::format("rendezvous at {}:{}", six ? "[" + meeting.host + "]" : meeting.host,
                       meeting.port);
}

void publish(const Meeting& meeting, int port, const Deadline& deadline) {
    if (meeting.store_key.empty()) return;
    std::string problem;
    std::optional<TorchStore> store =
        TorchStore::connect(meeting.host, meeting.port, deadline, &problem);
    const std::string token = meeting.token_file.empty() ? " " + meeting.token : "";
    if (store && store->set(meeting.store_key, std::to_string(port) + token, deadline)) return;
    run_error(fmt::format("torchrun's store at {}:{}", meeting.host, meeting.port),
              "{}: set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun",
              store ? std::strerror(errno) : problem);
}

Socket join_hub(const Meeting& meeting, const Deadline& deadline) {
    std::string problem;
    double pause_s = first_pause_s;
    for (u64 n_attempts = 1; !deadline.ends_waits(); ++n_attempts) {
        if (Socket socket = attempt(meeting, deadline, &problem)) {
            socket.tune();
            if (wait_for_welcome(socket, meeting, deadline)) return socket;
            problem = "rank 0 closed the connection";
        }
        // The pause is 50 to 150 % of pause_s, different on each rank, so that the ranks do not all
        // try at the same time.
        const u64 mixed = mix(static_cast<u64>(meeting.rank), n_attempts);
        const double share = 0.5 + static_cast<double>(mixed >> 11) * 0x1p-53;
        deadline.pause(share * pause_s);
        pause_s = std::min(2 * pause_s, longest_pause_s);
    }
    check_stop(meeting, deadline);
    run_error(place_of(meeting), "rank 0 did not answer rank {} within {} s: {}", meeting.rank,
              deadline.seconds(), problem);
}

bool wait_for_welcome(const Socket& socket, const Meeting& meeting, const Deadline& deadline) {
    const std::optional<Reply> reply = receive(socket, deadline.later(extra_wait_s));
    check_stop(meeting, deadline);
    if (!reply) return false;
    if (reply->frame.kind == FrameKind::welcome) return true;
    run_error(place_of(meeting), "{}", text_of_bytes(reply->bytes));
}

}  // namespace lm::comm
