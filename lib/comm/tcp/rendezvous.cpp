// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/rendezvous.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"
#include "comm/operation.hpp"

namespace lm::comm {
namespace {

// What is sent, in the byte order of these machines (little-endian, as all that the toolkit
// writes).
constexpr char magic[8] = {'l', 'm', '-', 'm', 'e', 'e', 't', '1'};

struct Hello {
    char magic[8];
    char token[40];  // its digest
    u32 rank;
    u32 size;
};

enum Status : u32 { given = 0, refused = 1 };

struct Reply {
    char magic[8];
    u32 status;
    u32 n_bytes;  // that follow: the blob, or why not
};

constexpr size_t max_blob = 64 << 10;
constexpr double hello_s = 5;  // a connection that says nothing for so long is dropped
// Connections without hello at a time, besides those of the ranks, which may all come at once.
constexpr i64 max_strangers = 256;
constexpr double connect_s = 5;
constexpr double first_pause_s = 0.05;
constexpr double longest_pause_s = 1;
constexpr double last_words_s = 5;

std::array<char, 40> token_of(const Meeting& meeting) {
    std::array<char, 40> token{};
    const std::string text = digest(std::string_view(meeting.token));
    std::memcpy(token.data(), text.data(), std::min(text.size(), token.size()));
    return token;
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

std::string place_of(const Meeting& meeting) {
    const bool six = meeting.host.find(':') != std::string::npos;
    return fmt::format("rendezvous at {}:{}", six ? "[" + meeting.host + "]" : meeting.host,
                       meeting.port);
}

bool send_reply(const Socket& socket, Status status, std::span<const std::byte> bytes,
                const Deadline& deadline) {
    Reply reply{{}, status, static_cast<u32>(bytes.size())};
    std::memcpy(reply.magic, magic, sizeof magic);
    return socket.send_all(std::as_bytes(std::span(&reply, 1)), deadline) &&
           socket.send_all(bytes, deadline);
}

}  // namespace

// ---- Rank 0 ------------------------------------------------------------------------------------

struct RendezvousHost::Guest {
    Socket socket;
    i64 number = 0;              // of all that came
    Deadline patience{hello_s};  // for the hello
    Hello hello{};
    size_t n_read = 0;
    int rank = -1;  // once admitted
};

RendezvousHost::RendezvousHost(const Meeting& meeting)
    : meeting_(meeting),
      listener_(listen_on(meeting.port)),
      by_rank_(static_cast<size_t>(meeting.size), -1) {
    meeting_.port = port_of(listener_);
    allow_connections(meeting_.size + max_strangers);
    poller_.add(listener_.fd());
}

RendezvousHost::~RendezvousHost() = default;

int RendezvousHost::port() const {
    return meeting_.port;
}

std::vector<int> RendezvousHost::missing() const {
    std::vector<int> ranks;
    for (int rank = 1; rank < meeting_.size; ++rank) {
        if (by_rank_[static_cast<size_t>(rank)] < 0) ranks.push_back(rank);
    }
    return ranks;
}

void RendezvousHost::drop(int fd) {
    const auto guest = guests_.find(fd);
    if (guest == guests_.end()) return;
    const int rank = guest->second.rank;
    if (rank >= 0) {
        by_rank_[static_cast<size_t>(rank)] = -1;
        --n_here_;
    } else {
        strangers_.erase({guest->second.number, fd});
    }
    guests_.erase(guest);
}

// Those that say nothing for too long, and the oldest ones when there are too many.
void RendezvousHost::drop_strangers() {
    const i64 most = meeting_.size + max_strangers;
    while (!strangers_.empty()) {
        const int oldest = strangers_.begin()->second;
        const bool too_many = static_cast<i64>(strangers_.size()) > most;
        if (!too_many && !guests_.at(oldest).patience.passed()) return;
        drop(oldest);
    }
}

bool RendezvousHost::accept_one() {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EMFILE || errno == ENFILE) && !strangers_.empty()) {
        drop(strangers_.begin()->second);
        return true;
    }
    if (!socket) return errno == ECONNABORTED || errno == EINTR;
    const int fd = socket.fd();
    poller_.add(fd);
    Guest& guest = guests_[fd];
    guest.socket = std::move(socket);
    guest.number = n_came_++;
    strangers_.insert({guest.number, fd});
    return true;
}

// All that wait, so that the system's queue of connections does not run over.
void RendezvousHost::accept_guests() {
    while (accept_one()) drop_strangers();
}

// Reads what has come; false: this connection is of no use.
bool RendezvousHost::read_hello(Guest& guest) {
    if (guest.rank >= 0) {  // says no more; readable means that it is gone
        char byte = 0;
        const ssize_t n = recv(guest.socket.fd(), &byte, 1, MSG_DONTWAIT);
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    auto* target = reinterpret_cast<char*>(&guest.hello) + guest.n_read;
    const ssize_t n = recv(guest.socket.fd(), target, sizeof(Hello) - guest.n_read, MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    guest.n_read += static_cast<size_t>(n);
    const size_t n_magic = std::min(guest.n_read, sizeof magic);
    if (std::memcmp(guest.hello.magic, magic, n_magic) != 0) return false;
    if (guest.n_read < sizeof(Hello)) return true;
    const auto token = token_of(meeting_);
    return std::memcmp(guest.hello.token, token.data(), token.size()) == 0 && admit(guest);
}

bool RendezvousHost::admit(Guest& guest) {
    const Deadline deadline(hello_s);
    const Hello& hello = guest.hello;
    if (hello.size != static_cast<u32>(meeting_.size) || hello.rank == 0 ||
        hello.rank >= hello.size) {
        const std::string why = fmt::format("rank {} of {} came, but rank 0 expects {} ranks",
                                            hello.rank, hello.size, meeting_.size);
        send_reply(guest.socket, refused, bytes_of(why), deadline);
        return false;
    }
    int& place = by_rank_[hello.rank];
    if (place >= 0) {  // started again: the former process is gone, or should be
        const std::string why = fmt::format("another process came as rank {}", hello.rank);
        send_reply(guests_.at(place).socket, refused, bytes_of(why), deadline);
        drop(place);
    }
    strangers_.erase({guest.number, guest.socket.fd()});
    guest.rank = static_cast<int>(hello.rank);
    place = guest.socket.fd();
    ++n_here_;
    return true;
}

// Waits for something to happen and deals with it.
void RendezvousHost::poll_once(double seconds) {
    bool knocked = false;
    for (const epoll_event& event : poller_.wait(seconds)) {
        const int fd = event.data.fd;
        if (fd == listener_.fd()) {
            knocked = true;
            continue;
        }
        const auto guest = guests_.find(fd);
        if (guest != guests_.end() && !read_hello(guest->second)) drop(fd);
    }
    drop_strangers();
    if (knocked) accept_guests();
}

std::vector<Socket> RendezvousHost::hand_out(std::span<const std::byte> blob, double timeout_s) {
    LM_CHECK(blob.size() <= max_blob, "a blob too large for the rendezvous");
    constexpr double longest_poll_s = 0.5;
    const Deadline deadline(timeout_s);
    while (n_here_ < meeting_.size && !deadline.passed()) {
        poll_once(std::clamp(deadline.left_s(), 0.0, longest_poll_s));
    }
    const std::vector<int> absent = missing();
    const std::string why =
        fmt::format("{} did not come within {} s", ranks_text(absent, meeting_.size), timeout_s);
    const Deadline last_words(last_words_s);
    std::vector<int> lost;
    std::vector<Socket> connections(by_rank_.size());
    for (size_t rank = 1; rank < by_rank_.size(); ++rank) {
        const auto guest = guests_.find(by_rank_[rank]);
        if (guest == guests_.end()) continue;
        Socket& socket = connections[rank] = std::move(guest->second.socket);
        const bool sent = absent.empty() ? send_reply(socket, given, blob, last_words)
                                         : send_reply(socket, refused, bytes_of(why), last_words);
        if (!sent) lost.push_back(static_cast<int>(rank));
    }
    guests_.clear();
    strangers_.clear();
    if (!absent.empty()) run_error(place_of(meeting_), "{}", why);
    if (lost.empty()) return connections;
    run_error(place_of(meeting_), "lost the connection to {}", ranks_text(lost, meeting_.size));
}

// ---- The other ranks ---------------------------------------------------------------------------

namespace {

// One attempt. Empty: try again, for the reason in *trouble.
std::optional<std::vector<std::byte>> attempt(const Meeting& meeting, const Deadline& deadline,
                                              Socket* kept, std::string* trouble) {
    Socket socket = connect_to(meeting.host, meeting.port, deadline.sooner(connect_s), trouble);
    if (!socket) return std::nullopt;
    Hello hello{{}, {}, static_cast<u32>(meeting.rank), static_cast<u32>(meeting.size)};
    std::memcpy(hello.magic, magic, sizeof magic);
    const auto token = token_of(meeting);
    std::memcpy(hello.token, token.data(), token.size());
    // Rank 0 gives up at the same time as this rank, and its list of who is missing is worth
    // waiting for.
    const Deadline reply_by(deadline.left_s() + last_words_s);
    Reply reply{};
    if (!socket.send_all(std::as_bytes(std::span(&hello, 1)), deadline) ||
        !socket.receive_all(std::as_writable_bytes(std::span(&reply, 1)), reply_by)) {
        *trouble = errno == ETIMEDOUT ? "rank 0 waits for others" : "dropped: another job's port?";
        return std::nullopt;
    }
    if (std::memcmp(reply.magic, magic, sizeof magic) != 0 || reply.n_bytes > max_blob) {
        *trouble = "something else listens there";
        return std::nullopt;
    }
    std::vector<std::byte> bytes(reply.n_bytes);
    if (!socket.receive_all(bytes, reply_by)) {
        *trouble = std::strerror(errno);
        return std::nullopt;
    }
    if (reply.status == given) {
        if (kept != nullptr) *kept = std::move(socket);
        return bytes;
    }
    run_error(place_of(meeting), "{}",
              std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

std::vector<std::byte> receive_from_host(const Meeting& meeting, double timeout_s, Socket* kept) {
    const Deadline deadline(timeout_s);
    std::string trouble;
    double pause_s = first_pause_s;
    for (u64 n_attempts = 1; !deadline.passed(); ++n_attempts) {
        if (auto blob = attempt(meeting, deadline, kept, &trouble)) return *blob;
        // From half to one and a half times as long, so that ranks that failed together come apart.
        const u64 mixed = mix(static_cast<u64>(meeting.rank), n_attempts);
        const double share = 0.5 + static_cast<double>(mixed >> 11) * 0x1p-53;
        const double left_s = std::max(deadline.left_s(), 0.0);
        std::this_thread::sleep_for(
            std::chrono::duration<double>(std::min(share * pause_s, left_s)));
        pause_s = std::min(2 * pause_s, longest_pause_s);
    }
    run_error(place_of(meeting), "rank 0 did not answer rank {} within {} s: {}", meeting.rank,
              timeout_s, trouble);
}

std::vector<std::byte> rendezvous(const Meeting& meeting, std::span<const std::byte> blob,
                                  double timeout_s) {
    if (meeting.rank != 0) return receive_from_host(meeting, timeout_s);
    RendezvousHost(meeting).hand_out(blob, timeout_s);
    return {blob.begin(), blob.end()};
}

}  // namespace lm::comm
