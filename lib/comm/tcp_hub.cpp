// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_hub.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/error.hpp"
#include "comm/reduce.hpp"

namespace lm::comm {
namespace {

constexpr u32 max_frame = u32{1} << 30;  // more than anybody tells

template <typename T>
T read_as(const Bytes& bytes, size_t offset = 0) {
    T value{};
    if (bytes.size() >= offset + sizeof value) {
        std::memcpy(&value, bytes.data() + offset, sizeof value);
    }
    return value;
}

}  // namespace

TcpHub::TcpHub(int n_ranks, std::string secret)
    : n_ranks_(n_ranks), secret_(std::move(secret)), listener_(listen_on(0)) {
    std::vector<int> all(static_cast<size_t>(n_ranks));
    std::iota(all.begin(), all.end(), 0);
    groups_[0] = std::move(all);
    thread_ = std::thread([this] { serve(); });
}

TcpHub::~TcpHub() {
    thread_.join();
}

bool TcpHub::over() const {
    const bool all_sent = std::ranges::all_of(peers_, [](const Peer& p) { return p.out.empty(); });
    return n_left_ == n_ranks_ && all_sent;
}

void TcpHub::serve() {
    constexpr int longest_poll_ms = 200;
    while (!over() && !stop_.load()) {
        std::vector<pollfd> entries{{listener_.fd(), POLLIN, 0}};
        for (const Peer& peer : peers_) {
            const short events = peer.out.empty() ? POLLIN : POLLIN | POLLOUT;
            entries.push_back({peer.socket ? peer.socket.fd() : -1, events, 0});
        }
        poll(entries.data(), entries.size(), longest_poll_ms);
        for (size_t i = 1; i < entries.size(); ++i) {
            Peer& peer = peers_[i - 1];
            const short seen = entries[i].revents;
            if (seen == 0 || !peer.socket) continue;
            const bool lives =
                ((seen & POLLOUT) == 0 || write(peer)) && ((seen & ~POLLOUT) == 0 || read(peer));
            if (!lives) lose(peer);
        }
        if (entries[0].revents != 0) accept_one();
    }
}

void TcpHub::accept_one() {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    socket.send_at_once();
    peers_.emplace_back().socket = std::move(socket);
}

// False: the connection is gone, or of no use.
bool TcpHub::read(Peer& peer) {
    std::byte piece[1 << 16];
    const ssize_t n = recv(peer.socket.fd(), piece, sizeof piece, MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    peer.in.insert(peer.in.end(), piece, piece + n);
    while (take(peer)) {
    }
    if (peer.rank >= 0) return true;
    const size_t n_known = std::min(peer.in.size(), secret_.size());
    return std::memcmp(peer.in.data(), secret_.data(), n_known) == 0;
}

// One frame, when it is all there; a stranger's first bytes are the secret.
bool TcpHub::take(Peer& peer) {
    const size_t begin = peer.rank < 0 ? secret_.size() : 0;
    if (peer.in.size() < begin + sizeof(Frame)) return false;
    const auto frame = read_as<Frame>(peer.in, begin);
    const size_t end = begin + sizeof(Frame) + frame.n_bytes;
    if (frame.n_bytes > max_frame || peer.in.size() < end) return false;
    const auto first = peer.in.begin();
    Bytes bytes(first + static_cast<i64>(begin + sizeof(Frame)), first + static_cast<i64>(end));
    peer.in.erase(first, first + static_cast<i64>(end));
    handle(peer, frame, std::move(bytes));
    return true;
}

bool TcpHub::write(Peer& peer) {
    while (!peer.out.empty()) {
        const Bytes& bytes = peer.out.front();
        const ssize_t n = ::send(peer.socket.fd(), bytes.data() + peer.n_sent,
                                 bytes.size() - peer.n_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        peer.n_sent += static_cast<size_t>(n);
        if (peer.n_sent < bytes.size()) return true;
        peer.out.pop_front();
        peer.n_sent = 0;
    }
    return true;
}

void TcpHub::lose(Peer& peer) {
    peer.socket.reset();
    peer.out.clear();
    if (peer.rank < 0) return;
    ++n_left_;
    by_rank_.erase(peer.rank);
    if (!peer.said_bye) {
        fail(Exit::failure,
             fmt::format("rank {} on {}: its process has ended", peer.rank, peer.host));
    }
}

void TcpHub::send(int rank, Frame frame, const Bytes& bytes) {
    const auto found = by_rank_.find(rank);
    if (found == by_rank_.end()) return;
    frame.n_bytes = static_cast<u32>(bytes.size());
    Bytes all(sizeof frame);
    std::memcpy(all.data(), &frame, sizeof frame);
    all.insert(all.end(), bytes.begin(), bytes.end());
    found->second->out.push_back(std::move(all));
}

// The first failure is everybody's reason.
void TcpHub::fail(Exit code, const std::string& text) {
    if (failed_) return;
    failed_ = true;
    Frame frame{.kind = FrameKind::failure};
    frame.code = static_cast<u8>(code);
    for (const auto& [rank, peer] : by_rank_) send(rank, frame, bytes_of_text(text));
}

// ---- Frames ------------------------------------------------------------------------------------

void TcpHub::handle(Peer& peer, const Frame& frame, Bytes bytes) {
    switch (frame.kind) {
        case FrameKind::hello:
            return greet(peer, frame, bytes);
        case FrameKind::post:
            return post(frame, std::move(bytes));
        case FrameKind::message: {
            const auto members = groups_.find(frame.group);
            if (members == groups_.end()) return;
            return send(members->second[static_cast<size_t>(frame.peer)], frame, bytes);
        }
        case FrameKind::question:
            for (size_t at = 0; at < bytes.size(); at += sizeof(i32)) {
                send(read_as<i32>(bytes, at), frame, {});
            }
            return;
        case FrameKind::answer:
            return send(frame.to, frame, bytes);
        case FrameKind::failure:
            return fail(Exit::failure, fmt::format("rank {} on {} gave up: {}", peer.rank,
                                                   peer.host, text_of_bytes(bytes)));
        case FrameKind::bye:
            peer.said_bye = true;
            return;
        case FrameKind::result:
            return;
    }
}

void TcpHub::greet(Peer& peer, const Frame& frame, const Bytes& bytes) {
    peer.rank = frame.from;
    peer.host = text_of_bytes(bytes);
    by_rank_[frame.from] = &peer;
}

void TcpHub::post(const Frame& frame, Bytes bytes) {
    const std::pair<u64, i64> key{frame.group, frame.number};
    Meeting& meeting = meetings_[key];
    const std::vector<int>& members = groups_[frame.group];
    const auto member = static_cast<int>(std::ranges::find(members, frame.from) - members.begin());
    if (!meeting.posts.empty()) {
        const Frame& first = meeting.posts.begin()->second;
        if (!operation_of(first).agrees_with(operation_of(frame))) {
            return fail(Exit::bug,
                        fmt::format("operation {}: rank {} calls {}, but rank {} calls {}",
                                    frame.number, first.from, operation_of(first).str(), frame.from,
                                    operation_of(frame).str()));
        }
    }
    meeting.posts[member] = frame;
    meeting.bytes[member] = std::move(bytes);
    if (meeting.posts.size() < members.size()) return;
    finish(frame.group, meeting);
    meetings_.erase(key);
}

void TcpHub::finish(u64 group, Meeting& meeting) {
    Frame frame = meeting.posts.begin()->second;
    frame.kind = FrameKind::result;
    const Operation o = operation_of(frame);
    if (o.kind == Kind::split) return split(group, meeting);
    const std::vector<int>& members = groups_[group];
    Bytes all;
    if (o.kind == Kind::broadcast) all = meeting.bytes[o.peer];
    if (o.kind == Kind::all_gather) {
        for (const auto& [member, bytes] : meeting.bytes) {
            all.insert(all.end(), bytes.begin(), bytes.end());
        }
    }
    if (o.kind == Kind::all_reduce || o.kind == Kind::reduce_scatter) {
        std::vector<const void*> inputs;
        for (const auto& [member, bytes] : meeting.bytes) inputs.push_back(bytes.data());
        const auto n = static_cast<i64>(meeting.bytes[0].size()) / size_of(o.dtype);
        all.resize(meeting.bytes[0].size());
        for (i64 at = 0; at < n; at += reduce_block) {
            reduce(o.dtype, o.reduction, inputs, at, std::min(reduce_block, n - at),
                   all.data() + at * size_of(o.dtype));
        }
    }
    for (size_t member = 0; member < members.size(); ++member) {
        const auto begin = all.begin() + static_cast<i64>(member) * o.bytes();
        const Bytes part = o.kind == Kind::reduce_scatter ? Bytes(begin, begin + o.bytes()) : all;
        send(members[member], frame, part);
    }
}

// Each member told its color and key; each gets the part's number, its rank there, and the ranks.
void TcpHub::split(u64 group, const Meeting& meeting) {
    struct Member {
        i64 key;
        int rank;
    };
    std::map<i64, std::vector<Member>> parts;
    const std::vector<int> members = groups_[group];
    for (const auto& [member, bytes] : meeting.bytes) {
        const auto color = read_as<i64>(bytes);
        const int rank = members[static_cast<size_t>(member)];
        // Negative: alone.
        parts[color >= 0 ? color : -1 - member].push_back({read_as<i64>(bytes, sizeof(i64)), rank});
    }
    for (auto& [color, part] : parts) {
        std::ranges::stable_sort(part, {}, &Member::key);
        const u64 id = n_groups_++;
        Bytes told(sizeof id);
        std::memcpy(told.data(), &id, sizeof id);
        for (const Member& member : part) {
            groups_[id].push_back(member.rank);
            const auto* const rank = reinterpret_cast<const std::byte*>(&member.rank);
            told.insert(told.end(), rank, rank + sizeof member.rank);
        }
        Frame frame = meeting.posts.begin()->second;
        frame.kind = FrameKind::result;
        for (const Member& member : part) send(member.rank, frame, told);
    }
}

}  // namespace lm::comm
