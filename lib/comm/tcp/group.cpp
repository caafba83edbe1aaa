// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace lm::comm {
namespace {

constexpr double ask_apart_s = 0.05;
constexpr double ask_latest_s = 10;

}  // namespace

TcpGroup::TcpGroup(TcpWorld& world, u64 id, std::vector<int> ranks, int rank, std::string name)
    : Group(std::move(name), rank, static_cast<int>(ranks.size())),
      world_(world),
      id_(id),
      ranks_(std::move(ranks)) {
    world_.add_group(id_, n_started_);
}

TcpGroup::~TcpGroup() {
    world_.remove_group(id_);
}

std::string TcpGroup::timeout_message(const Operation& operation, i64 number, double waited_s) {
    std::vector<int> asked;
    for (int member = 0; member < size(); ++member) {
        const bool counts = number >= 0 ? member != rank() : member == operation.peer;
        if (counts) asked.push_back(ranks_[static_cast<size_t>(member)]);
    }
    Operation named = operation;
    if (named.peer >= 0) named.peer = ranks_[static_cast<size_t>(named.peer)];
    return timeout_text(named.str(), number, world_.ask(asked, id_), world_.size(), waited_s);
}

Frame TcpGroup::frame_of(const Operation& o, i64 number) const {
    Frame frame{.kind = is_message(o.kind) ? FrameKind::message : FrameKind::post};
    frame.to = rank();
    frame.peer = o.peer;
    frame.group = id_;
    frame.number = number;
    frame.n = o.n;
    frame.operation = static_cast<u8>(o.kind);
    frame.reduction = static_cast<u8>(o.reduction);
    frame.dtype = static_cast<u8>(o.dtype);
    return frame;
}

i64 TcpGroup::start(const Operation& o) {
    world_.require_whole();
    const auto* const data = static_cast<const std::byte*>(o.in);
    const i64 n_bytes = o.kind == Kind::reduce_scatter ? o.bytes() * size() : o.bytes();
    Bytes bytes;
    const bool gives = o.kind != Kind::broadcast || o.peer == rank();
    if (data != nullptr && gives) bytes.assign(data, data + n_bytes);
    if (o.kind == Kind::send) {
        world_.tell(frame_of(o, n_sent_[o.peer]++), bytes);
        return 0;  // the hub keeps it until it is wanted
    }
    Started started{o, {}};
    if (o.kind == Kind::receive) {
        const int from = ranks_[static_cast<size_t>(o.peer)];
        started.key = {id_, from, n_received_[o.peer]++};
    } else {
        started.key = {id_, -1, next_collective_number()};
        world_.tell(frame_of(o, started.key.number), bytes);
    }
    const i64 handle = pending_.open();
    *pending_.find(handle) = started;
    return handle;
}

Bytes TcpGroup::wait_for(const Started& started) {
    // One after another, so that a large job is not flooded.
    const double timeout_s =
        world_.options().timeout_s + std::min(rank() * ask_apart_s, ask_latest_s);
    if (auto bytes = world_.take(started.key, timeout_s)) return std::move(*bytes);
    const i64 number = started.key.member < 0 ? started.key.number : -1;
    const std::string text = timeout_message(started.operation, number, timeout_s);
    world_.abort(fmt::format("group '{}': {}", name(), text));
    run_error(fmt::format("group '{}'", name()), "{}", text);
}

void TcpGroup::finish(i64 handle, const Started& started, const Bytes& bytes) {
    const Operation& o = started.operation;
    const i64 wanted = o.kind == Kind::all_gather ? o.bytes() * size() : o.bytes();
    if (o.out != nullptr && static_cast<i64>(bytes.size()) != wanted) {
        fail(Exit::bug, fmt::format("group '{}'", name()), "{}: the message has {} bytes", o.str(),
             bytes.size());
    }
    if (o.out != nullptr && wanted > 0) std::memcpy(o.out, bytes.data(), bytes.size());
    pending_.close(handle);
}

void TcpGroup::wait(i64 handle) {
    const Started* const started = pending_.find(handle);
    if (started != nullptr) finish(handle, *started, wait_for(*started));
}

bool TcpGroup::done(i64 handle) {
    const Started* const started = pending_.find(handle);
    if (started == nullptr) return true;
    if (!world_.has_come(started->key)) return false;
    wait(handle);
    return true;
}

std::unique_ptr<Group> TcpGroup::make_part(int color, int key, std::string part_name) {
    const Started started{{Kind::split}, {id_, -1, next_collective_number()}};
    const i64 told[] = {color, key};
    const auto bytes = std::as_bytes(std::span(told));
    world_.tell(frame_of({Kind::split}, started.key.number), {bytes.begin(), bytes.end()});
    const Bytes answer = wait_for(started);
    auto [id, ranks] = part_of_bytes(answer);
    const auto own = std::ranges::find(ranks, world_.rank()) - ranks.begin();
    return std::make_unique<TcpGroup>(world_, id, std::move(ranks), static_cast<int>(own),
                                      std::move(part_name));
}

}  // namespace lm::comm
