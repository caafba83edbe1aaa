// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "comm/operation.hpp"
#include "comm/socket.hpp"

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
constexpr double hello_s = 5;          // a connection that says nothing for so long is dropped
constexpr size_t max_strangers = 256;  // connections without hello at a time
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

// Every rank is a connection of rank 0's.
void allow_many_files() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
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
    Deadline patience{hello_s};  // for the hello
    Hello hello{};
    size_t n_read = 0;
    int rank = -1;  // once admitted
};

struct RendezvousHost::Listener {
    Socket socket;
};

RendezvousHost::RendezvousHost(const Meeting& meeting)
    : meeting_(meeting), listener_(new Listener{listen_on(meeting.port)}) {
    meeting_.port = port_of(listener_->socket);
    allow_many_files();
}

RendezvousHost::~RendezvousHost() = default;

int RendezvousHost::port() const {
    return meeting_.port;
}

std::vector<int> RendezvousHost::missing() const {
    std::vector<bool> here(static_cast<size_t>(meeting_.size));
    for (const Guest& guest : guests_) {
        if (guest.rank >= 0) here[static_cast<size_t>(guest.rank)] = true;
    }
    std::vector<int> ranks;
    for (int rank = 1; rank < meeting_.size; ++rank) {
        if (!here[static_cast<size_t>(rank)]) ranks.push_back(rank);
    }
    return ranks;
}

void RendezvousHost::accept_guests() {
    while (true) {
        Socket socket(
            accept4(listener_->socket.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) return;
        const auto strange = [](const Guest& guest) { return guest.rank < 0; };
        if (std::ranges::count_if(guests_, strange) >= static_cast<i64>(max_strangers)) {
            guests_.erase(std::ranges::find_if(guests_, strange));  // the oldest
        }
        guests_.emplace_back().socket = std::move(socket);
    }
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
    for (Guest& other : guests_) {
        if (other.rank != static_cast<int>(hello.rank)) continue;
        // Started again: the former process is gone, or should be.
        const std::string why = fmt::format("another process came as rank {}", hello.rank);
        send_reply(other.socket, refused, bytes_of(why), deadline);
        other.rank = -1;
        other.patience = Deadline(0);
    }
    guest.rank = static_cast<int>(hello.rank);
    return true;
}

// Waits for something to happen and deals with it.
void RendezvousHost::poll_once(double seconds) {
    std::vector<pollfd> entries{{listener_->socket.fd(), POLLIN, 0}};
    for (const Guest& guest : guests_) entries.push_back({guest.socket.fd(), POLLIN, 0});
    poll(entries.data(), entries.size(), static_cast<int>(std::ceil(seconds * 1000)));
    for (size_t i = 0; i < guests_.size(); ++i) {
        Guest& guest = guests_[i];
        const bool useful = entries[i + 1].revents == 0 || read_hello(guest);
        if (!useful) guest.socket.reset();
    }
    std::erase_if(guests_, [](const Guest& guest) {
        return !guest.socket || (guest.rank < 0 && guest.patience.passed());
    });
    if (entries[0].revents != 0) accept_guests();
}

void RendezvousHost::hand_out(std::span<const std::byte> blob, double timeout_s) {
    LM_CHECK(blob.size() <= max_blob, "a blob too large for the rendezvous");
    constexpr double longest_poll_s = 0.5;
    const Deadline deadline(timeout_s);
    std::vector<int> absent = missing();
    for (; !absent.empty() && !deadline.passed(); absent = missing()) {
        poll_once(std::clamp(deadline.left_s(), 0.0, longest_poll_s));
    }
    const std::string why =
        fmt::format("{} did not come within {} s", ranks_text(absent, meeting_.size), timeout_s);
    const Deadline last_words(last_words_s);
    std::vector<int> lost;
    for (const Guest& guest : guests_) {
        if (guest.rank < 0) continue;
        const bool sent = absent.empty()
                              ? send_reply(guest.socket, given, blob, last_words)
                              : send_reply(guest.socket, refused, bytes_of(why), last_words);
        if (!sent) lost.push_back(guest.rank);
    }
    guests_.clear();
    if (!absent.empty()) run_error(place_of(meeting_), "{}", why);
    if (lost.empty()) return;
    std::ranges::sort(lost);
    run_error(place_of(meeting_), "lost the connection to {}", ranks_text(lost, meeting_.size));
}

// ---- The other ranks ---------------------------------------------------------------------------

namespace {

// One attempt. Empty: try again, for the reason in *trouble.
std::optional<std::vector<std::byte>> attempt(const Meeting& meeting, const Deadline& deadline,
                                              std::string* trouble) {
    const Socket socket =
        connect_to(meeting.host, meeting.port, deadline.sooner(connect_s), trouble);
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
    if (reply.status == given) return bytes;
    run_error(place_of(meeting), "{}",
              std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

std::vector<std::byte> receive_from_host(const Meeting& meeting, double timeout_s) {
    const Deadline deadline(timeout_s);
    std::string trouble;
    double pause_s = first_pause_s;
    while (!deadline.passed()) {
        if (auto blob = attempt(meeting, deadline, &trouble)) return *blob;
        std::this_thread::sleep_for(
            std::chrono::duration<double>(std::min(pause_s, std::max(deadline.left_s(), 0.0))));
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
