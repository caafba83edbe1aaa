// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "comm/reduce.hpp"

namespace lm::comm {
namespace {

constexpr i64 blocks_per_piece = 8;

// The numbers of objects that are allocated in advance. Without this, a rank that runs ahead of the
// other ranks, and so uses more objects at once, would allocate objects late in a run.
constexpr int first_collectives = 16;
constexpr int first_messages = 4;  // for each member

// Returns the number of parts, each of operation.n elements, into which the work is divided; 0 when
// the operation has no data.
i64 parts_of(const Operation& operation, int size) {
    switch (operation.kind) {
        case OperationKind::all_reduce:
        case OperationKind::broadcast:
            return 1;
        case OperationKind::reduce_scatter:
        case OperationKind::all_gather:
            return size;
        case OperationKind::barrier:
        case OperationKind::split:
        case OperationKind::send:
        case OperationKind::receive:
            break;
    }
    return 0;
}

void copy_bytes(void* to, const void* from, i64 bytes) {
    if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

std::byte* at(void* base, i64 elements, DType dtype) {
    return static_cast<std::byte*>(base) + elements * size_of(dtype);
}
const std::byte* at(const void* base, i64 elements, DType dtype) {
    return static_cast<const std::byte*>(base) + elements * size_of(dtype);
}

}  // namespace

Hub::Hub(ThreadsWorld& world, VirtualTime* time, std::string name, std::vector<int> members)
    : world_(world),
      time_(time),
      name_(std::move(name)),
      members_(std::move(members)),
      n_posted_(members_.size()),
      channels_(members_.size() * members_.size()) {
    for (int i = 0; i < first_collectives; ++i) add_collective();
    for (int i = 0; i < first_messages * size(); ++i) add_message();
    open_.reserve(first_collectives);
}

void Hub::add_collective() {
    Collective& collective = *collectives_.emplace_back(std::make_unique<Collective>());
    collective.posts.resize(members_.size());
    collective.inputs.resize(members_.size());
    free_collectives_.reserve(collectives_.capacity());
    free_collectives_.push_back(&collective);
}

void Hub::add_message() {
    Message& message = *messages_.emplace_back(std::make_unique<Message>());
    free_messages_.reserve(messages_.capacity());
    free_messages_.push_back(&message);
}

double Hub::now(int member) const {
    return time_ ? time_->now_s[static_cast<size_t>(world_rank(member))] : 0;
}

void Hub::advance(int member, double time) {
    if (!time_) return;
    double& now_s = time_->now_s[static_cast<size_t>(world_rank(member))];
    now_s = std::max(now_s, time);
}

void Hub::ring_all() {
    for (const int rank : members_) world_.ring(rank);
}

std::string Hub::describe(const Operation& operation) const {
    Operation named = operation;
    if (named.peer >= 0) named.peer = world_rank(named.peer);
    return named.str();
}

// ---- Collectives -------------------------------------------------------------------------------

// Returns collective `number`; opens it if the caller is the first member that posts it. A member
// may be any number of collectives ahead of the slowest member. Each member posts in order, so
// `number` is at most one above the newest open collective. The caller holds mutex_.
Collective& Hub::open(i64 number) {
    const auto index = static_cast<size_t>(number - first_open_);
    if (index < open_.size()) return *open_[index];
    if (free_collectives_.empty()) add_collective();
    Collective& collective = *free_collectives_.back();
    free_collectives_.pop_back();
    collective.number = number;
    collective.n_posted = 0;
    collective.n_unfinished = size();
    collective.latest_post = 0;
    collective.ready.store(false);
    collective.next_piece.store(0);
    collective.pieces_done.store(0);
    open_.push(&collective);
    return collective;
}

void Hub::check_agreement(const Collective& collective, int member) const {
    const Operation& mine = collective.posts[static_cast<size_t>(member)];
    const Operation& first = collective.posts[static_cast<size_t>(collective.first)];
    if (mine.agrees_with(first)) return;
    world_.fail_with(Error(
        Exit::bug, fmt::format("group '{}': operation {}: rank {} calls {}, but rank {} calls {}",
                               name_, collective.number, world_rank(collective.first),
                               describe(first), world_rank(member), describe(mine))));
}

Collective* Hub::post(int member, const Operation& operation, SplitRequest split) {
    if (world_.failed()) world_.throw_failure();
    const auto index = static_cast<size_t>(member);
    bool complete = false;
    Collective* collective = nullptr;
    {
        const std::lock_guard lock(mutex_);
        collective = &open(n_posted_[index]++);
        collective->posts[index] = operation;
        collective->inputs[index] = operation.in;
        collective->latest_post = std::max(collective->latest_post, now(member));
        if (collective->n_posted == 0) collective->first = member;
        if (operation.kind == OperationKind::split) {
            collective->splits.resize(members_.size());
            collective->splits[index] = std::move(split);
        }
        check_agreement(*collective, member);
        complete = ++collective->n_posted == size();
        if (complete) {  // every member posts in order, so a complete collective is the oldest
            open_.pop();
            ++first_open_;
            make_ready(*collective);
        }
    }
    if (!complete) return collective;
    // A single piece is computed here, because waking the other members would take more time.
    if (collective->n_pieces == 1) {
        work(*collective);
    } else {
        ring_all();
    }
    return collective;
}

// Called when all members have posted: divides the work into pieces of blocks_per_piece blocks.
// Waiting members read the posts without mutex_, so the store to `ready` publishes the posts.
void Hub::make_ready(Collective& collective) {
    const Operation& operation = collective.posts[0];
    const i64 blocks = parts_of(operation, size()) * ceil_div(operation.n, reduce_block);
    collective.n_pieces = ceil_div(blocks, blocks_per_piece);
    if (operation.kind == OperationKind::split) make_parts(collective);
    if (time_) {
        collective.finished_at = std::max(collective.latest_post, free_at_) +
                                 time_->links.collective_s(operation, size());
        free_at_ = collective.finished_at;
    }
    collective.ready.store(true);
}

// Makes one hub for each group of the split.
void Hub::make_parts(Collective& collective) {
    std::vector<SplitChoice> choices;
    for (const SplitRequest& request : collective.splits) choices.push_back(request.choice);
    collective.parts.assign(members_.size(), {});
    for (const std::vector<int>& joined : split_members(choices)) {
        std::vector<int> ranks;
        for (const int member : joined) ranks.push_back(world_rank(member));
        const std::string& name = collective.splits[static_cast<size_t>(joined[0])].name;
        const auto hub = std::make_shared<Hub>(world_, time_, name, std::move(ranks));
        for (size_t i = 0; i < joined.size(); ++i) {
            collective.parts[static_cast<size_t>(joined[i])] = {hub, static_cast<int>(i)};
        }
    }
}

// Computes pieces until no piece is left to start. When work() returns, other threads may still
// compute their pieces. The collective is complete when pieces_done has reached n_pieces.
void Hub::work(Collective& collective) {
    while (collective.next_piece.load() < collective.n_pieces) {
        if (!world_.enter()) return;
        const i64 piece = collective.next_piece.fetch_add(1);
        if (piece < collective.n_pieces) do_piece(collective, piece);
        world_.leave();
    }
}

void Hub::do_piece(Collective& collective, i64 piece) {
    const Operation& operation = collective.posts[0];
    const i64 blocks = ceil_div(operation.n, reduce_block);
    const i64 end = std::min((piece + 1) * blocks_per_piece, parts_of(operation, size()) * blocks);
    // Block i is elements [begin, begin + n) of part i / blocks.
    for (i64 i = piece * blocks_per_piece; i < end; ++i) {
        const i64 begin = i % blocks * reduce_block;
        do_block(collective, i / blocks, begin, std::min(reduce_block, operation.n - begin));
    }
    // The thread that has computed the last piece wakes the sleeping members.
    if (collective.pieces_done.fetch_add(1) + 1 == collective.n_pieces) ring_all();
}

// Computes elements [begin, begin + n) of part `part`; n <= reduce_block.
void Hub::do_block(Collective& collective, i64 part, i64 begin, i64 n) {
    const Operation& operation = collective.posts[0];
    const DType dtype = operation.dtype;
    const i64 bytes = n * size_of(dtype);
    if (operation.kind == OperationKind::all_reduce) {
        // x of every member is both input and output, so the whole block is read, in the order of
        // the members, before any part of it is written.
        alignas(64) std::byte result[reduce_block * 8];
        reduce(dtype, operation.reduction, collective.inputs, begin, n, result);
        for (const Operation& post : collective.posts) {
            copy_bytes(at(post.out, begin, dtype), result, bytes);
        }
        return;
    }
    const i64 in_whole = part * operation.n + begin;  // index in the larger of the two views
    if (operation.kind == OperationKind::reduce_scatter) {
        void* out = collective.posts[static_cast<size_t>(part)].out;
        reduce(dtype, operation.reduction, collective.inputs, in_whole, n, at(out, begin, dtype));
        return;
    }
    const bool gather = operation.kind == OperationKind::all_gather;
    const void* from = collective.inputs[static_cast<size_t>(gather ? part : operation.peer)];
    for (const Operation& post : collective.posts) {
        copy_bytes(at(post.out, in_whole, dtype), at(from, begin, dtype), bytes);
    }
}

// Returns the world ranks of the members that have not posted the collective. With `ended_only`,
// omits the ranks whose body has not returned.
std::vector<int> Hub::missing(const Collective& collective, bool ended_only) {
    const std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (int member = 0; member < size(); ++member) {
        if (n_posted_[static_cast<size_t>(member)] > collective.number) continue;
        if (!ended_only || world_.has_ended(world_rank(member))) {
            ranks.push_back(world_rank(member));
        }
    }
    std::ranges::sort(ranks);
    return ranks;
}

void Hub::wait(int member, Collective& collective) {
    const auto fail = [&](const std::string& problem) {
        const Operation& mine = collective.posts[static_cast<size_t>(member)];
        world_.fail_with(
            Error(Exit::failure, fmt::format("group '{}': {}, operation {}: {}", name_,
                                             describe(mine), collective.number, problem)));
    };
    const auto missing_text = [&](bool ended_only) {
        return ranks_text(missing(collective, ended_only), world_.size());
    };
    const bool complete = world_.wait(
        world_rank(member),
        [&] {
            if (collective.ready.load()) work(collective);
            return collective.complete();
        },
        [&] {
            if (missing(collective, true).empty()) return;
            fail(missing_text(true) + " ended without starting it");
        });
    if (!complete) {
        fail(fmt::format("timed out after {} s waiting for {}", world_.timeout_s(),
                         missing_text(false)));
    }
}

bool Hub::done(Collective& collective) {
    if (world_.failed()) world_.throw_failure();
    if (collective.ready.load()) work(collective);
    return collective.complete();
}

void Hub::finish(int member, Collective* collective) {
    advance(member, collective->finished_at);
    const std::lock_guard lock(mutex_);
    if (--collective->n_unfinished > 0) return;
    collective->parts.clear();
    free_collectives_.push_back(collective);
}

// ---- Messages ----------------------------------------------------------------------------------

Message* Hub::post_message(int member, const Operation& operation) {
    if (world_.failed()) world_.throw_failure();
    const bool sends = operation.kind == OperationKind::send;
    const int from = sends ? member : operation.peer;
    const int to = sends ? operation.peer : member;
    Message* mine = nullptr;
    Message* other = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (free_messages_.empty()) add_message();
        mine = free_messages_.back();
        free_messages_.pop_back();
        mine->operation = operation;
        mine->member = member;
        mine->posted_at = now(member);
        mine->finished_at = 0;
        mine->complete.store(false);
        Channel& channel = channels_[static_cast<size_t>(from * size() + to)];
        // If the other side of this message was posted earlier, the other side waits in the
        // opposite queue. Otherwise this side is queued.
        MessageQueue& waiting = sends ? channel.receives : channel.sends;
        if (waiting.empty()) {
            (sends ? channel.sends : channel.receives).push(mine);
            return mine;
        }
        other = waiting.pop();
        if (time_) {
            const Message& send = sends ? *mine : *other;
            channel.free_at = std::max(channel.free_at, send.posted_at) +
                              time_->links.transfer_s(static_cast<double>(operation.bytes()));
            (sends ? mine : other)->finished_at = channel.free_at;
            (sends ? other : mine)->finished_at = channel.free_at + time_->links.latency_s;
        }
    }
    deliver(sends ? *mine : *other, sends ? *other : *mine, member);
    return mine;
}

// Copies the data, without mutex_: send and receive have left their queues, so no other thread uses
// them until they are complete. `poster` is the member that posted last; its thread runs this
// function.
void Hub::deliver(Message& send, Message& receive, int poster) {
    if (!send.operation.agrees_with(receive.operation)) {
        world_.fail_with(
            Error(Exit::bug, fmt::format("group '{}': rank {} calls {}, but rank {} calls {}",
                                         name_, world_rank(send.member), describe(send.operation),
                                         world_rank(receive.member), describe(receive.operation))));
    }
    if (!world_.enter()) world_.throw_failure();
    copy_bytes(receive.operation.out, send.operation.in, send.operation.bytes());
    world_.leave();
    const int other = poster == send.member ? receive.member : send.member;
    send.complete.store(true);  // the owner of `send` may now reuse it
    receive.complete.store(true);
    world_.ring(world_rank(other));
}

void Hub::wait(int member, Message& message) {
    const int peer = world_rank(message.operation.peer);
    const auto fail = [&](const std::string& problem) {
        world_.fail_with(Error(Exit::failure, fmt::format("group '{}': {}: {}", name_,
                                                          describe(message.operation), problem)));
    };
    const bool complete = world_.wait(
        world_rank(member), [&] { return message.complete.load(); },
        [&] {
            // The peer may have delivered the message just before it ended.
            if (world_.has_ended(peer) && !message.complete.load()) {
                fail(ranks_text({peer}, world_.size()) + " ended without starting it");
            }
        });
    if (!complete) {
        fail(fmt::format("timed out after {} s waiting for {}", world_.timeout_s(),
                         ranks_text({peer}, world_.size())));
    }
}

void Hub::finish(int member, Message* message) {
    advance(member, message->finished_at);
    const std::lock_guard lock(mutex_);
    free_messages_.push_back(message);
}

}  // namespace lm::comm
