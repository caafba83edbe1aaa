// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/hub.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/threads.hpp"
#include "comm/reduce.hpp"

namespace lm::comm {
namespace {

constexpr double hello_s = 5;  // a connection must send its hello within this time
// A connection is unidentified until its hello has been received. The hub keeps at most this many
// unidentified connections, plus one for each rank, because all ranks may connect at once.
constexpr i64 max_unidentified = 256;
constexpr size_t hello_bytes = sizeof(Frame) + sizeof(Hello);

std::shared_ptr<const FrameBytes> shared(FrameBytes bytes) {
    return std::make_shared<const FrameBytes>(std::move(bytes));
}

// Removes a frame from the front of `in`. Returns false when the frame has not arrived completely.
bool extract(FrameBytes& in, Frame& frame, FrameBytes& bytes) {
    if (in.size() < sizeof frame) return false;
    frame = read_as<Frame>(in);
    if (in.size() < sizeof frame + frame.n_bytes) return false;
    const auto begin = in.begin() + sizeof frame;
    bytes.assign(begin, begin + frame.n_bytes);
    in.erase(in.begin(), begin + frame.n_bytes);
    return true;
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
    listener_ = listen_on(meeting_.port);
    meeting_.port = port_of(listener_);  // the system chooses the port when it was 0
    allow_connections(meeting_.size + max_unidentified);
    poller_.add(listener_.fd());
    deadline_ = Deadline(timeout_s_);  // for the hellos of all ranks
    thread_ = start_thread([this] { serve(); });
}

TcpHub::~TcpHub() {
    if (thread_.joinable()) thread_.join();
}

// Returns whether the hub's thread must end. Before all ranks have connected, the thread also runs
// while there are no connections, because ranks may still connect.
bool TcpHub::over() const {
    return stop_.load() || ((started_ || failed_) && n_connected_ == 0);
}

void TcpHub::serve() {
    constexpr double longest_wait_s = 0.2;  // time between two checks of stop_ and the deadlines
    while (!over()) {
        bool knocked = false;
        for (const epoll_event& event : poller_.wait(longest_wait_s)) {
            const int fd = event.data.fd;
            knocked = knocked || fd == listener_.fd();
            const auto found = peers_.find(fd);
            if (found == peers_.end()) continue;  // the listener, or a peer dropped in this loop
            Peer& peer = found->second;
            if ((event.events & EPOLLOUT) != 0) write(peer);
            if ((event.events & ~EPOLLOUT) != 0 && !read(peer)) drop(peer, errno);
        }
        drop_unidentified();
        // Accepts connections only after the loop, because a new connection may get the descriptor
        // of a dropped connection, whose remaining events are not for the new connection. Accepts
        // all waiting connections, so that the system's queue does not overflow.
        while (knocked && listener_ && accept_one()) drop_unidentified();
        if (!started_ && !failed_ && deadline_.passed()) fail(-1, Exit::failure, missing_text());
    }
}

// ---- Letting ranks in --------------------------------------------------------------------------

// Accepts one connection. Returns false when no connection waits to be accepted.
bool TcpHub::accept_one() {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EMFILE || errno == ENFILE) && !unidentified_.empty()) {
        // No file descriptor is free: drops the oldest unidentified connection and retries.
        drop(peers_.at(unidentified_.begin()->second), 0);
        return true;
    }
    if (!socket) return errno == ECONNABORTED || errno == EINTR;
    socket.tune();
    const int fd = socket.fd();
    poller_.add(fd);
    const i64 number = n_accepted_++;
    peers_.insert_or_assign(
        fd, Peer{.socket = std::move(socket), .number = number, .hello_by = Deadline(hello_s)});
    unidentified_[number] = fd;  // in the order of their connection
    return true;
}

// Drops the connections that have not sent a hello in time. If there are still too many
// unidentified connections, drops the oldest of them.
void TcpHub::drop_unidentified() {
    const i64 most = meeting_.size + max_unidentified;
    while (!unidentified_.empty()) {
        Peer& oldest = peers_.at(unidentified_.begin()->second);
        const bool too_many = static_cast<i64>(unidentified_.size()) > most;
        if (!too_many && !oldest.hello_by.passed()) return;
        drop(oldest, 0);
    }
}

// Identifies the sender of a hello as a rank. Returns false when the connection must be dropped.
bool TcpHub::admit(Peer& peer, const Frame& frame, const FrameBytes& bytes) {
    if (frame.kind != FrameKind::hello || bytes.size() != sizeof(Hello)) return false;
    const auto hello = read_as<Hello>(bytes);
    const auto token = token_digest(meeting_);
    if (std::memcmp(hello.magic, hello_magic, sizeof hello_magic) != 0 ||
        std::memcmp(hello.token, token.data(), token.size()) != 0) {
        return false;
    }
    const int rank = frame.from;
    if (hello.size != meeting_.size || rank < 0 || rank >= hello.size) {
        refuse(peer, fmt::format("rank {} of {} connected, but rank 0 expects {} ranks", rank,
                                 hello.size, meeting_.size));
        return false;
    }
    Peer*& place = ranks_[static_cast<size_t>(rank)];
    if (place != nullptr) {  // the rank was restarted, so its former process has ended
        refuse(*place, fmt::format("another process connected as rank {}", rank));
        drop(*place, 0);
    }
    unidentified_.erase(peer.number);
    peer.rank = rank;
    place = &peer;
    hosts_[static_cast<size_t>(rank)] =
        std::string(hello.host, strnlen(hello.host, sizeof hello.host));
    if (++n_connected_ == ranks_.size()) {
        started_ = true;
        stop_accepting();
        send_to_all({.kind = FrameKind::welcome}, shared({}));
    }
    return true;
}

void TcpHub::refuse(Peer& peer, const std::string& why) {
    send(peer, {.kind = FrameKind::failure}, shared(bytes_of_text(why)));
}

void TcpHub::stop_accepting() {
    listener_.reset();
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
// connection must be dropped: it is closed (errno is 0), it has failed (errno states how), or its
// first bytes are not a hello.
bool TcpHub::read(Peer& peer) {
    std::byte piece[1 << 16];
    const ssize_t n = recv(peer.socket.fd(), piece, sizeof piece, MSG_DONTWAIT);
    if (n < 0) return would_block();
    errno = 0;  // for drop(): the connection was closed without an error
    if (n == 0) return false;
    peer.in.insert(peer.in.end(), piece, piece + n);
    Frame frame;
    FrameBytes bytes;
    while (extract(peer.in, frame, bytes)) {
        if (peer.rank >= 0) {
            handle(peer, frame, std::move(bytes));
        } else if (!admit(peer, frame, bytes)) {
            return false;
        }
    }
    return peer.rank >= 0 || peer.in.size() < hello_bytes;  // limits the input before a hello
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
    Peer* const peer = ranks_.at(static_cast<size_t>(rank));
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
    if (rank < 0) unidentified_.erase(peer.number);
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
        case FrameKind::message: {
            const std::vector<int>& members = groups_[frame.group];
            return send_to(members.at(static_cast<size_t>(frame.peer)), frame,
                           shared(std::move(bytes)));
        }
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
        default:  // only hubs send frames of these kinds
            return;
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
    p.bytes.at(static_cast<size_t>(frame.member)) = std::move(bytes);
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
    if (o.kind == OperationKind::broadcast) all = posts.bytes[static_cast<size_t>(o.peer)];
    if (o.kind == OperationKind::all_gather) {
        for (const FrameBytes& bytes : posts.bytes)
            all.insert(all.end(), bytes.begin(), bytes.end());
    }
    if (o.kind == OperationKind::all_reduce || o.kind == OperationKind::reduce_scatter) {
        std::vector<const void*> inputs;  // by member, so that sums have the same bits in every run
        for (const FrameBytes& bytes : posts.bytes) inputs.push_back(bytes.data());
        const auto n = static_cast<i64>(posts.bytes[0].size()) / size_of(o.dtype);
        all = posts.bytes[0];
        for (i64 at = 0; at < n; at += reduce_block) {
            reduce(o.dtype, o.reduction, inputs, at, std::min(reduce_block, n - at),
                   all.data() + at * size_of(o.dtype));
        }
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

// Forms the groups of a split: members of equal color, ordered by key. A member with a negative
// color is alone in its group.
void TcpHub::split(const Posts& posts) {
    struct Member {
        i64 key;
        int rank;
    };
    std::map<i64, std::vector<Member>> parts;
    const std::vector<int>& members = groups_[posts.first.group];
    for (size_t member = 0; member < members.size(); ++member) {
        const auto post = read_as<SplitPost>(posts.bytes[member]);
        parts[post.color >= 0 ? post.color : -1 - static_cast<i64>(member)].push_back(
            {post.key, members[member]});
    }
    Frame frame = posts.first;
    frame.kind = FrameKind::result;
    for (auto& [color, part] : parts) {
        std::ranges::stable_sort(part, {}, &Member::key);  // equal keys: by rank
        SplitResult result{n_groups_++, 0, static_cast<i32>(part.size())};
        std::vector<int>& ranks = groups_[result.group];
        for (const Member& member : part) {
            ranks.push_back(member.rank);
            send_to(member.rank, frame, shared(bytes_of(result)));
            ++result.rank;
        }
    }
}

}  // namespace lm::comm
