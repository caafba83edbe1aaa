// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "comm/tcp/frame_check.hpp"

namespace lm::comm {
namespace {

// After a timeout each member asks the others for their status through the hub. Members begin to
// ask 0.05 s apart, and all within 10 s, so that a large job does not flood the hub.
constexpr double ask_apart_s = 0.05;
constexpr double ask_latest_s = 10;

}  // namespace

TcpGroup::TcpGroup(TcpWorld& world, u64 id, int rank, int size, std::string name)
    : Group(std::move(name), rank, size), world_(world), id_(id) {
    world_.add_group(id_, n_started_);
}

TcpGroup::~TcpGroup() {
    world_.remove_group(id_);
}

std::string TcpGroup::timeout_message(const Operation& operation, i64 number, double waited_s) {
    const bool collective = number >= 0;
    const size_t n_asked = collective ? static_cast<size_t>(size() - 1) : 1;
    std::vector<RankStatus> statuses = world_.ask(id_, collective ? -1 : operation.peer, n_asked);
    Operation named = operation;  // `operation`, with the world rank of its peer
    if (operation.peer == rank()) {
        named.peer = world_.rank();
    } else if (operation.peer >= 0 && statuses.size() == n_asked) {
        // `statuses` has the other members in their order, without this rank.
        const int place = collective ? operation.peer - (operation.peer > rank() ? 1 : 0) : 0;
        named.peer = statuses[static_cast<size_t>(place)].rank;
    }
    // The peer of a message may wait for another rank, in a chain of messages.
    if (!collective && std::ranges::all_of(statuses, &RankStatus::answered)) {
        for (RankStatus& status :
             world_.ask(0, -1, static_cast<size_t>(world_.size() - 1))) {  // 0: group "world"
            if (!status.answered) statuses.push_back(std::move(status));
        }
    }
    return timeout_text(named.str(), number, std::move(statuses), world_.size(), waited_s);
}

Frame TcpGroup::frame_of(const Operation& o, i64 number) const {
    return {.kind = is_message(o.kind) ? FrameKind::message : FrameKind::post,
            .member = rank(),
            .peer = o.peer,
            .group = id_,
            .number = number,
            .n = o.n,
            .operation = static_cast<u8>(o.kind),
            .reduction = static_cast<u8>(o.reduction),
            .dtype = static_cast<u8>(o.dtype)};
}

i64 TcpGroup::start(const Operation& o) {
    world_.check_failure();
    const auto* const data = static_cast<const std::byte*>(o.in);
    if (o.n > max_elements(o, size())) {
        run_error(fmt::format("group '{}'", name()), "{}: TCP carries at most {} elements: use MPI",
                  o.str(), max_elements(o, size()));
    }
    // A copy, because the caller may change its memory after a send.
    const FrameBytes bytes(data, data + o.input_bytes(rank(), size()));
    if (o.kind == OperationKind::send) {
        world_.send(frame_of(o, n_sent_[o.peer]++), bytes);
        return 0;  // the send is done, because the receiver's process stores the message
    }
    Started started{o, {}};
    if (o.kind == OperationKind::receive) {
        started.key = {id_, o.peer, n_received_[o.peer]++};
    } else {
        started.key = {id_, -1, next_collective_number()};
        world_.send(frame_of(o, started.key.number), bytes);
    }
    const i64 handle = pending_.open();
    *pending_.find(handle) = started;
    return handle;
}

FrameBytes TcpGroup::wait_for(const Started& started) {
    const double timeout_s =
        world_.options().timeout_s + std::min(rank() * ask_apart_s, ask_latest_s);
    if (auto bytes = world_.wait_for(started.key, timeout_s)) return std::move(*bytes);
    const i64 number = started.key.member < 0 ? started.key.number : -1;
    const std::string text = timeout_message(started.operation, number, timeout_s);
    world_.abort(Exit::failure, fmt::format("group '{}': {}", name(), text));
    run_error(fmt::format("group '{}'", name()), "{}", text);
}

void TcpGroup::wait(i64 handle) {
    const Started* const started = pending_.find(handle);
    if (started == nullptr) return;
    const Operation& o = started->operation;
    const FrameBytes bytes = wait_for(*started);
    const i64 wanted = o.kind == OperationKind::all_gather ? o.bytes() * size() : o.bytes();
    if (o.out != nullptr && static_cast<i64>(bytes.size()) != wanted) {
        fail(Exit::bug, fmt::format("group '{}'", name()), "{}: expected {} bytes, got {}", o.str(),
             wanted, bytes.size());
    }
    if (o.out != nullptr && wanted > 0) std::memcpy(o.out, bytes.data(), bytes.size());
    pending_.close(handle);
}

bool TcpGroup::done(i64 handle) {
    const Started* const started = pending_.find(handle);
    if (started == nullptr) return true;
    if (!world_.has_arrived(started->key)) return false;
    wait(handle);
    return true;
}

std::unique_ptr<Group> TcpGroup::make_part(int color, int key, std::string part_name) {
    const Started started{{OperationKind::split}, {id_, -1, next_collective_number()}};
    world_.send(frame_of({OperationKind::split}, started.key.number),
                bytes_of(SplitChoice{color, key}));
    const auto part = read_as<SplitResult>(wait_for(started));
    return std::make_unique<TcpGroup>(world_, part.group, part.rank, part.size,
                                      std::move(part_name));
}

}  // namespace lm::comm
