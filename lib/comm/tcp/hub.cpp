// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/hub.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/error.hpp"
#include "comm/reduce.hpp"

namespace lm::comm {
namespace {

template <typename T>
T read_as(const Bytes& bytes, size_t offset = 0) {
    T value{};
    if (bytes.size() >= offset + sizeof value) {
        std::memcpy(&value, bytes.data() + offset, sizeof value);
    }
    return value;
}

std::shared_ptr<const Bytes> shared(Bytes bytes) {
    return std::make_shared<const Bytes>(std::move(bytes));
}

}  // namespace

TcpHub::TcpHub(std::vector<Socket> connections) : peers_(connections.size()) {
    std::vector<int> all(peers_.size());
    std::iota(all.begin(), all.end(), 0);
    for (const int rank : all) {
        Socket& socket = peers_[static_cast<size_t>(rank)].socket;
        socket = std::move(connections[static_cast<size_t>(rank)]);
        socket.tune();
        rank_of_[socket.fd()] = rank;
        poller_.add(socket.fd());
    }
    groups_[0] = std::move(all);
    thread_ = std::thread([this] { serve(); });
}

TcpHub::~TcpHub() {
    thread_.join();
}

bool TcpHub::over() const {
    return n_left_ == peers_.size() &&
           std::ranges::all_of(peers_, [](const Peer& peer) { return peer.out.empty(); });
}

void TcpHub::serve() {
    constexpr double longest_wait_s = 0.2;
    while (!over() && !stop_.load()) {
        for (const epoll_event& event : poller_.wait(longest_wait_s)) {
            const auto found = rank_of_.find(event.data.fd);
            if (found == rank_of_.end()) continue;
            const int rank = found->second;
            if ((event.events & EPOLLOUT) != 0) write(peers_[static_cast<size_t>(rank)]);
            if ((event.events & ~EPOLLOUT) != 0 && !read(rank)) lose(rank, errno);
        }
    }
}

// False: the connection is gone, with errno 0 when the other side has closed it.
bool TcpHub::read(int rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    std::byte piece[1 << 16];
    const ssize_t n = recv(peer.socket.fd(), piece, sizeof piece, MSG_DONTWAIT);
    if (n == 0) errno = 0;
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    peer.in.insert(peer.in.end(), piece, piece + n);
    while (take(rank)) {
    }
    return true;
}

// One frame, when it is all there.
bool TcpHub::take(int rank) {
    Bytes& in = peers_[static_cast<size_t>(rank)].in;
    if (in.size() < sizeof(Frame)) return false;
    const auto frame = read_as<Frame>(in);
    const size_t end = sizeof(Frame) + frame.n_bytes;
    if (in.size() < end) return false;
    const auto first = in.begin();
    Bytes bytes(first + sizeof(Frame), first + static_cast<i64>(end));
    in.erase(first, first + static_cast<i64>(end));
    handle(rank, frame, std::move(bytes));
    return true;
}

// As much as the connection takes; the rest when it takes more. One that is gone is noticed by
// reading.
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
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
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

void TcpHub::lose(int rank, int error) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    rank_of_.erase(peer.socket.fd());
    peer.socket.reset();
    peer.out.clear();
    ++n_left_;
    if (peer.said_bye) return;
    const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
    const std::string host = peer.host.empty() ? "an unknown host" : peer.host;
    fail(rank, Exit::failure,
         fmt::format("rank {} on {}: {}", rank, host,
                     silent ? "its host does not answer any more" : "its process has ended"));
}

void TcpHub::send(int rank, const Frame& frame, std::shared_ptr<const Bytes> bytes) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (!peer.socket) return;
    const bool idle = peer.out.empty();
    peer.out.push_back({frame, std::move(bytes)});
    Frame& own = peer.out.back().frame;
    own.n_bytes = static_cast<u32>(peer.out.back().bytes->size());
    if (idle) write(peer);
}

// The first failure is everybody's reason.
void TcpHub::fail(int rank, Exit code, const std::string& text) {
    if (failed_) return;
    failed_ = true;
    Frame frame{.kind = FrameKind::failure};
    frame.peer = rank;
    frame.code = static_cast<u8>(code);
    const auto bytes = shared(bytes_of_text(text));
    for (size_t to = 0; to < peers_.size(); ++to) {
        send(static_cast<int>(to), frame, bytes);
    }
}

// Of a rank that may not answer any more.
void TcpHub::tell_host(int asker, int rank) {
    Frame frame{.kind = FrameKind::host};
    frame.from = rank;
    send(asker, frame, shared(bytes_of_text(peers_[static_cast<size_t>(rank)].host)));
}

// ---- Frames ------------------------------------------------------------------------------------

void TcpHub::handle(int rank, const Frame& frame, Bytes bytes) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    switch (frame.kind) {
        case FrameKind::hello:
            peer.host = text_of_bytes(bytes);
            return;
        case FrameKind::post:
            return post(frame, std::move(bytes));
        case FrameKind::message: {
            const auto members = groups_.find(frame.group);
            if (members == groups_.end()) return;
            return send(members->second[static_cast<size_t>(frame.peer)], frame,
                        shared(std::move(bytes)));
        }
        case FrameKind::question:
            for (size_t at = 0; at < bytes.size(); at += sizeof(i32)) {
                tell_host(rank, read_as<i32>(bytes, at));
                send(read_as<i32>(bytes, at), frame, shared({}));
            }
            return;
        case FrameKind::answer:
            return send(frame.to, frame, shared(std::move(bytes)));
        case FrameKind::failure:
            return fail(
                rank, Exit::failure,
                fmt::format("rank {} on {} gave up: {}", rank, peer.host, text_of_bytes(bytes)));
        case FrameKind::bye:
            peer.said_bye = true;
            return;
        case FrameKind::result:
        case FrameKind::host:
            return;
    }
}

void TcpHub::post(const Frame& frame, Bytes bytes) {
    const std::pair<u64, i64> key{frame.group, frame.number};
    Meeting& meeting = meetings_[key];
    const size_t n_members = groups_[frame.group].size();
    if (meeting.n_come == 0) {
        meeting.first = frame;
        meeting.bytes.resize(n_members);
    } else if (!operation_of(meeting.first).agrees_with(operation_of(frame))) {
        const Frame& first = meeting.first;
        return fail(frame.from, Exit::bug,
                    fmt::format("operation {}: rank {} calls {}, but rank {} calls {}",
                                frame.number, first.from, operation_of(first).str(), frame.from,
                                operation_of(frame).str()));
    }
    meeting.bytes.at(static_cast<size_t>(frame.to)) = std::move(bytes);
    if (++meeting.n_come < n_members) return;
    finish(frame.group, meeting);
    meetings_.erase(key);
}

void TcpHub::finish(u64 group, const Meeting& meeting) {
    Frame frame = meeting.first;
    frame.kind = FrameKind::result;
    const Operation o = operation_of(frame);
    if (o.kind == Kind::split) return split(group, meeting);
    const std::vector<int>& members = groups_[group];
    Bytes all;
    if (o.kind == Kind::broadcast) all = meeting.bytes[static_cast<size_t>(o.peer)];
    if (o.kind == Kind::all_gather) {
        for (const Bytes& bytes : meeting.bytes) all.insert(all.end(), bytes.begin(), bytes.end());
    }
    if (o.kind == Kind::all_reduce || o.kind == Kind::reduce_scatter) {
        std::vector<const void*> inputs;
        for (const Bytes& bytes : meeting.bytes) inputs.push_back(bytes.data());
        const auto n = static_cast<i64>(meeting.bytes[0].size()) / size_of(o.dtype);
        all = meeting.bytes[0];
        for (i64 at = 0; at < n; at += reduce_block) {
            reduce(o.dtype, o.reduction, inputs, at, std::min(reduce_block, n - at),
                   all.data() + at * size_of(o.dtype));
        }
    }
    const auto result = shared(std::move(all));
    for (size_t member = 0; member < members.size(); ++member) {
        if (o.kind != Kind::reduce_scatter) {
            send(members[member], frame, result);
            continue;
        }
        const auto begin = result->begin() + static_cast<i64>(member) * o.bytes();
        send(members[member], frame, shared(Bytes(begin, begin + o.bytes())));
    }
}

// Each member told its color and key; each gets the part's number and the ranks in it.
void TcpHub::split(u64 group, const Meeting& meeting) {
    struct Member {
        i64 key;
        int rank;
    };
    std::map<i64, std::vector<Member>> parts;
    const std::vector<int> members = groups_[group];
    for (size_t member = 0; member < members.size(); ++member) {
        const Bytes& bytes = meeting.bytes[member];
        const auto color = read_as<i64>(bytes);
        // Negative: alone.
        parts[color >= 0 ? color : -1 - static_cast<i64>(member)].push_back(
            {read_as<i64>(bytes, sizeof(i64)), members[member]});
    }
    Frame frame = meeting.first;
    frame.kind = FrameKind::result;
    for (auto& [color, part] : parts) {
        std::ranges::stable_sort(part, {}, &Member::key);
        const u64 id = n_groups_++;
        std::vector<int>& ranks = groups_[id];
        for (const Member& member : part) ranks.push_back(member.rank);
        const auto told = shared(bytes_of_part(id, ranks));
        for (const int rank : ranks) send(rank, frame, told);
    }
}

}  // namespace lm::comm
