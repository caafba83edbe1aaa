// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/hub.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/threads.hpp"
#include "comm/reduce.hpp"
#include "comm/tcp/frame_check.hpp"

namespace lm::comm {
namespace {

constexpr double proof_s = 10;  // a connection must send its proof within this time
// A connection is unidentified until its proof has been received. The hub keeps at most this many
// unidentified connections, plus one for each rank, because all ranks may connect at once.
constexpr i64 max_unidentified = 256;
// The hub accepts at most this many connections of a listener before it serves the others again and
// checks the deadline. Otherwise a flood of connections would occupy it.
constexpr int max_accepted_at_once = 64;
// The port may be held by the ending process of an earlier start.
constexpr double wait_for_port_s = 5;

std::shared_ptr<const FrameBytes> shared(FrameBytes bytes) {
    return std::make_shared<const FrameBytes>(std::move(bytes));
}

}  // namespace

TcpHub::TcpHub(const Meeting& meeting, double timeout_s)
    : meeting_(meeting),
      timeout_s_(timeout_s),
      deadline_(timeout_s),
      ranks_(static_cast<size_t>(meeting.size)),
      hosts_(ranks_.size(), "an unknown host") {
    std::vector<int>& all = groups_[0];  // the world
    all.resize(ranks_.size());
    std::iota(all.begin(), all.end(), 0);
}

void TcpHub::start() {
    bool everywhere = false;
    const int port = meeting_.store_key.empty() ? meeting_.port : 0;
    listeners_ = listen_on(meeting_.host, port, Deadline(wait_for_port_s), &everywhere);
    port_ = port_of(listeners_[0]);  // the system chooses the port when it was 0
    if (everywhere) {
        note("{}: the name has no address of this host that other hosts reach: listening on all",
             place_of(meeting_));
    }
    allow_connections(meeting_.size + max_unidentified);
    for (const Socket& listener : listeners_) poller_.add(listener.fd());
    std::array<Socket, 2> pair = socket_pair();
    rank0_ = std::move(pair[0]);
    place(add(std::move(pair[1])), 0, host_name());
    deadline_ = Deadline(timeout_s_);  // for the proofs of all ranks
    thread_ = start_thread([this] { serve(); });
}

TcpHub::~TcpHub() {
    rank0_.reset();  // if connection_of_rank0() was not called
    if (thread_.joinable()) thread_.join();
}

// Returns whether the hub's thread must end. Before all ranks have connected, the thread also runs
// while there are no connections, because ranks may still connect.
bool TcpHub::over() const {
    return stop_.load() || ((started_ || failed_) && n_connected_ == 0);
}

// An exception fails the job, and the hub continues to send the failure. After an exception of the
// failed job it closes all connections, which also ends the ranks.
void TcpHub::serve() noexcept {
    try {
        try {
            while (!over()) serve_once();
        } catch (const std::exception& exception) {
            const Error error = error_of(exception);
            fail(0, error.code(), fmt::format("rank 0 on {}: {}", hosts_[0], error.what()));
            while (!over()) serve_once();
        }
    } catch (...) {
        peers_.clear();
    }
}

void TcpHub::serve_once() {
    constexpr double longest_wait_s = 0.2;  // time between two checks of stop_ and the deadlines
    std::vector<int> knocked;
    for (const epoll_event& event : poller_.wait(longest_wait_s)) {
        const int fd = event.data.fd;
        const auto found = peers_.find(fd);
        if (found == peers_.end()) {  // a listener, or a peer dropped in this loop
            knocked.push_back(fd);
            continue;
        }
        Peer& peer = found->second;
        if ((event.events & EPOLLOUT) != 0) write(peer);
        if ((event.events & ~EPOLLOUT) != 0 && !read(peer)) drop(peer, errno);
    }
    drop_unidentified();
    // Accepts connections only after the loop, because a new connection may get the descriptor
    // of a dropped connection, whose remaining events are not for the new connection.
    for (const int fd : knocked) {
        for (int n = 0; n < max_accepted_at_once && accept_one(fd); ++n) drop_unidentified();
    }
    if (!started_ && !failed_ && deadline_.passed()) fail(-1, Exit::failure, missing_text());
}

// ---- Letting ranks in --------------------------------------------------------------------------

// Accepts one connection of a listener. Returns false when none waits to be accepted.
bool TcpHub::accept_one(int listener) {
    if (std::ranges::find(listeners_, listener, &Socket::fd) == listeners_.end()) return false;
    Socket socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EMFILE || errno == ENFILE) && !unidentified_.empty()) {
        // No file descriptor is free: drops the oldest unidentified connection and retries.
        drop(peers_.at(unidentified_.begin()->second), 0);
        return true;
    }
    if (!socket) return errno == ECONNABORTED || errno == EINTR;
    socket.tune();
    Peer& peer = add(std::move(socket));
    unidentified_[{false, peer.number}] = peer.socket.fd();
    ++n_accepted_;
    // A rank sends its hello at once, so it is often here already. Once it is read, connections
    // without a hello do not displace this one.
    if (!read(peer)) drop(peer, errno);
    return true;
}

TcpHub::Peer& TcpHub::add(Socket socket) {
    const int fd = socket.fd();
    poller_.add(fd);
    return peers_
        .insert_or_assign(fd, Peer{.socket = std::move(socket),
                                   .number = n_accepted_.load(),
                                   .proof_by = Deadline(proof_s)})
        .first->second;
}

// Drops the connections that have not sent a proof in time. If there are still too many
// unidentified connections, drops the oldest one without a hello, or else the oldest one.
void TcpHub::drop_unidentified() {
    for (const bool greeted : {false, true}) {
        while (true) {
            const auto oldest = unidentified_.lower_bound({greeted, 0});
            if (oldest == unidentified_.end() || oldest->first.first != greeted) break;
            Peer& peer = peers_.at(oldest->second);
            if (!peer.proof_by.passed()) break;
            drop(peer, 0);
        }
    }
    while (std::ssize(unidentified_) > meeting_.size + max_unidentified) {
        drop(peers_.at(unidentified_.begin()->second), 0);
    }
}

// Handles a frame of an unidentified connection, whose kind and size are right. Returns false when
// the connection must be dropped.
bool TcpHub::identify(Peer& peer, const Frame& frame, const FrameBytes& bytes) {
    if (!peer.hello) return challenge(peer, frame.from, read_as<Hello>(bytes));
    return is_equal(read_as<Proof>(bytes), peer.expected) && admit(peer);
}

bool TcpHub::challenge(Peer& peer, int rank, const Hello& hello) {
    if (std::memcmp(hello.magic, hello_magic, sizeof hello_magic) != 0) return false;
    Challenge challenge{.nonce = random_nonce(), .proof = {}};
    const auto proof = [&](Prover prover) {
        return prove(meeting_.token, prover, rank, hello, challenge.nonce);
    };
    challenge.proof = proof(Prover::hub);
    peer.expected = proof(Prover::rank);
    peer.claimed = rank;
    unidentified_.erase({false, peer.number});
    peer.hello = hello;
    unidentified_[{true, peer.number}] = peer.socket.fd();
    send(peer, {.kind = FrameKind::challenge}, shared(bytes_of(challenge)));
    return true;
}

// Accepts a connection that has proved that it belongs to the job. Returns false when its rank is
// not one of this job's other ranks.
bool TcpHub::admit(Peer& peer) {
    const int rank = peer.claimed;
    const Hello& hello = *peer.hello;
    if (hello.size != meeting_.size || rank < 1 || rank >= meeting_.size) {
        refuse(peer, fmt::format("rank {} of {} connected, but rank 0 expects {} ranks", rank,
                                 hello.size, meeting_.size));
        return false;
    }
    if (Peer* const former = ranks_[static_cast<size_t>(rank)]) {  // its process has ended
        refuse(*former, fmt::format("another process connected as rank {}", rank));
        drop(*former, 0);
    }
    unidentified_.erase({true, peer.number});
    place(peer, rank, {hello.host, strnlen(hello.host, sizeof hello.host)});
    return true;
}

void TcpHub::place(Peer& peer, int rank, std::string host) {
    peer.rank = rank;
    ranks_[static_cast<size_t>(rank)] = &peer;
    hosts_[static_cast<size_t>(rank)] = std::move(host);
    if (++n_connected_ < ranks_.size()) return;
    started_ = true;
    stop_accepting();
    send_to_all({.kind = FrameKind::welcome}, shared({}));
}

void TcpHub::refuse(Peer& peer, const std::string& why) {
    send(peer, {.kind = FrameKind::failure}, shared(bytes_of_text(why)));
}

void TcpHub::stop_accepting() {
    listeners_.clear();
    while (!unidentified_.empty()) drop(peers_.at(unidentified_.begin()->second), 0);
}

std::string TcpHub::missing_text() const {
    std::vector<int> missing;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        if (ranks_[rank] == nullptr) missing.push_back(static_cast<int>(rank));
    }
    return fmt::format("timed out after {} s waiting for {}", timeout_s_,
                       ranks_text(missing, meeting_.size));
}

// ---- Connections -------------------------------------------------------------------------------

// Reads from the connection and handles the frames that are complete. Returns false when the
// connection must be dropped: it is closed (errno is 0), it has failed (errno states how), or it
// has sent an invalid frame.
bool TcpHub::read(Peer& peer) {
    std::byte piece[1 << 16];
    const ssize_t n = recv(peer.socket.fd(), piece, sizeof piece, MSG_DONTWAIT);
    if (n < 0) return would_block();
    errno = 0;  // for drop(): the connection was closed without an error
    if (n == 0) return false;
    peer.in.insert(peer.in.end(), piece, piece + n);
    while (true) {
        if (!peer.head) {
            if (peer.in.size() < sizeof(Frame)) return true;
            peer.head = read_as<Frame>(peer.in);
            if (!is_acceptable(peer, *peer.head)) return false;
        }
        const Frame frame = *peer.head;
        if (peer.in.size() - sizeof frame < frame.n_bytes) return true;
        const auto begin = peer.in.begin() + sizeof frame;
        FrameBytes bytes(begin, begin + frame.n_bytes);
        peer.in.erase(peer.in.begin(), begin + frame.n_bytes);
        peer.head.reset();
        if (peer.rank >= 0) {
            handle(peer, frame, std::move(bytes));
        } else if (!identify(peer, frame, bytes)) {
            return false;
        }
    }
}

// Returns whether the hub may receive the bytes that follow a frame. If not, and a rank has sent
// the frame, fails the job.
bool TcpHub::is_acceptable(const Peer& peer, const Frame& frame) {
    if (peer.rank < 0) {
        return peer.hello ? frame.kind == FrameKind::proof && frame.n_bytes == sizeof(Proof)
                          : frame.kind == FrameKind::hello && frame.n_bytes == sizeof(Hello);
    }
    const auto group = groups_.find(frame.group);
    const std::string problem = started_
                                    ? problem_of(frame, peer.rank, meeting_.size,
                                                 group == groups_.end() ? nullptr : &group->second)
                                    : "a frame before the start";
    if (!problem.empty()) fail_invalid(peer.rank, problem);
    return problem.empty();
}

void TcpHub::fail_invalid(int rank, const std::string& problem) {
    fail(rank, Exit::failure,
         fmt::format("rank {} on {}: sent an invalid frame: {}", rank,
                     hosts_[static_cast<size_t>(rank)], problem));
}

// Writes as many bytes as the connection accepts, and the rest at the next EPOLLOUT. When the
// connection is closed, discards the output; read() reports the closed connection.
void TcpHub::write(Peer& peer) {
    while (!peer.out.empty()) {
        Parcel& parcel = peer.out.front();
        auto* const frame = reinterpret_cast<std::byte*>(&parcel.frame);
        auto* const bytes = const_cast<std::byte*>(parcel.bytes->data());
        const size_t n_frame = std::min(peer.n_sent, sizeof(Frame));
        const size_t n_bytes = peer.n_sent - n_frame;
        iovec pieces[] = {{frame + n_frame, sizeof(Frame) - n_frame},
                          {bytes + n_bytes, parcel.bytes->size() - n_bytes}};
        msghdr message{};
        message.msg_iov = pieces;
        message.msg_iovlen = 2;
        const ssize_t n = sendmsg(peer.socket.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && !would_block()) {
            peer.out.clear();
            peer.n_sent = 0;
            break;
        }
        if (n > 0) peer.n_sent += static_cast<size_t>(n);
        if (peer.n_sent < parcel.size()) break;
        peer.out.pop_front();
        peer.n_sent = 0;
    }
    poller_.watch_writing(peer.socket.fd(), !peer.out.empty());
}

void TcpHub::send(Peer& peer, const Frame& frame, Shared bytes) {
    const bool idle = peer.out.empty();
    peer.out.push_back({frame, std::move(bytes)});
    Parcel& parcel = peer.out.back();
    parcel.frame.n_bytes = static_cast<u32>(parcel.bytes->size());
    if (idle) write(peer);
}

// Sends a frame to a rank; does nothing when the rank's connection has ended.
void TcpHub::send_to(int rank, const Frame& frame, Shared bytes) {
    Peer* const peer = ranks_[static_cast<size_t>(rank)];
    if (peer != nullptr) send(*peer, frame, std::move(bytes));
}

void TcpHub::send_to_all(const Frame& frame, const Shared& bytes) {
    for (const int rank : groups_[0]) send_to(rank, frame, bytes);
}

// Closes the connection and destroys `peer`. After the start, the job fails when a rank ends
// without bye. Before the start, the rank may connect again.
void TcpHub::drop(Peer& peer, int error) {
    const int rank = peer.rank;
    const bool lost = rank >= 0 && started_ && !peer.said_bye;
    if (rank < 0) unidentified_.erase({peer.hello.has_value(), peer.number});
    if (rank >= 0) {
        ranks_[static_cast<size_t>(rank)] = nullptr;
        --n_connected_;
    }
    peers_.erase(peer.socket.fd());
    if (!lost) return;
    // The errors of an unreachable host and of unanswered keepalive probes (Socket::tune()).
    const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
    fail(rank, Exit::failure,
         fmt::format("rank {} on {}: {}", rank, hosts_[static_cast<size_t>(rank)],
                     silent ? "its host does not answer any more" : "its process has ended"));
}

// Sends the first failure to all ranks. `rank`: the failed rank; -1: ranks are missing.
void TcpHub::fail(int rank, Exit code, const std::string& text) {
    if (failed_) return;
    failed_ = true;
    stop_accepting();
    Frame frame{.kind = FrameKind::failure, .from = rank};
    frame.code = static_cast<u8>(code);
    send_to_all(frame, shared(bytes_of_text(text)));
}

// ---- Frames ------------------------------------------------------------------------------------

void TcpHub::handle(Peer& peer, const Frame& frame, FrameBytes bytes) {
    switch (frame.kind) {
        case FrameKind::post:
            return post(frame, std::move(bytes));
        case FrameKind::message:
            return send_to(groups_[frame.group][static_cast<size_t>(frame.peer)], frame,
                           shared(std::move(bytes)));
        case FrameKind::question:
            return ask(frame);
        case FrameKind::answer:
            return send_to(frame.peer, frame, shared(std::move(bytes)));
        case FrameKind::failure:
            return fail(peer.rank, static_cast<Exit>(frame.code),
                        fmt::format("rank {} on {} gave up: {}", peer.rank,
                                    hosts_[static_cast<size_t>(peer.rank)], text_of_bytes(bytes)));
        case FrameKind::bye:
            peer.said_bye = true;
            return;
        case FrameKind::hello:
        case FrameKind::challenge:
        case FrameKind::proof:
        case FrameKind::welcome:
        case FrameKind::result:
        case FrameKind::host:
            return;  // refused by is_acceptable()
    }
}

// Forwards a question to the asked ranks. Sends their hosts to the asker, as they may not answer.
void TcpHub::ask(const Frame& question) {
    const std::vector<int>& members = groups_[question.group];
    for (size_t member = 0; member < members.size(); ++member) {
        const int rank = members[member];
        const bool asked =
            question.peer < 0 ? rank != question.from : static_cast<int>(member) == question.peer;
        if (!asked) continue;
        send_to(question.from, {.kind = FrameKind::host, .from = rank},
                shared(bytes_of_text(hosts_[static_cast<size_t>(rank)])));
        send_to(rank, question, shared({}));
    }
}

void TcpHub::post(const Frame& frame, FrameBytes bytes) {
    const auto posts = posts_.try_emplace({frame.group, frame.number}).first;
    Posts& p = posts->second;
    const size_t n_members = groups_[frame.group].size();
    if (p.n_received == 0) {
        p.first = frame;
        p.bytes.resize(n_members);
    }
    const Operation first = operation_of(p.first);  // the posts of the other members must match it
    const Operation mine = operation_of(frame);
    if (!first.agrees_with(mine)) {
        return fail(frame.from, Exit::bug,
                    fmt::format("operation {}: rank {} calls {}, but rank {} calls {}",
                                frame.number, p.first.from, first.str(), frame.from, mine.str()));
    }
    std::optional<FrameBytes>& place = p.bytes[static_cast<size_t>(frame.member)];
    if (place) return fail_invalid(frame.from, fmt::format("operation {} again", frame.number));
    place = std::move(bytes);
    if (++p.n_received < n_members) return;
    finish(p);
    posts_.erase(posts);
}

void TcpHub::finish(const Posts& posts) {
    Frame frame = posts.first;
    frame.kind = FrameKind::result;
    const Operation o = operation_of(frame);
    if (o.kind == OperationKind::split) return split(posts);
    FrameBytes all;
    if (o.kind == OperationKind::broadcast) all = *posts.bytes[static_cast<size_t>(o.peer)];
    if (o.kind == OperationKind::all_gather) {
        for (const auto& bytes : posts.bytes) all.insert(all.end(), bytes->begin(), bytes->end());
    }
    if (o.kind == OperationKind::all_reduce || o.kind == OperationKind::reduce_scatter) {
        std::vector<const void*> inputs;  // by member, so that sums have the same bits in every run
        for (const auto& bytes : posts.bytes) inputs.push_back(bytes->data());
        all = *posts.bytes[0];
        reduce(o.dtype, o.reduction, inputs, 0, std::ssize(all) / size_of(o.dtype), all.data());
    }
    const Shared result = shared(std::move(all));
    const std::vector<int>& members = groups_[frame.group];
    for (size_t member = 0; member < members.size(); ++member) {
        Shared own = result;
        if (o.kind == OperationKind::reduce_scatter) {
            const auto begin = result->begin() + static_cast<i64>(member) * o.bytes();
            own = shared(FrameBytes(begin, begin + o.bytes()));
        }
        send_to(members[member], frame, std::move(own));
    }
}

// Registers the groups of a split and sends each member its group.
void TcpHub::split(const Posts& posts) {
    const std::vector<int> members = groups_[posts.first.group];
    std::vector<SplitChoice> choices;
    for (const auto& bytes : posts.bytes) choices.push_back(read_as<SplitChoice>(*bytes));
    Frame frame = posts.first;
    frame.kind = FrameKind::result;
    for (const std::vector<int>& joined : split_members(choices)) {
        SplitResult result{n_groups_++, 0, static_cast<i32>(joined.size())};
        std::vector<int>& ranks = groups_[result.group];
        for (const int member : joined) {
            ranks.push_back(members[static_cast<size_t>(member)]);
            send_to(ranks.back(), frame, shared(bytes_of(result)));
            ++result.rank;
        }
    }
}

}  // namespace lm::comm
