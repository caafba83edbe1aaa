// SPDX-License-Identifier: Apache-2.0
// A group of ranks whose operations are frames that pass through the hub on rank 0
// (comm/tcp/hub.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "comm/pending_operations.hpp"
#include "comm/tcp/frame_check.hpp"
#include "comm/tcp/world.hpp"

namespace lm::comm {
namespace {

class TcpGroup final : public Group {
  public:
    TcpGroup(TcpWorld& world, u64 id, int rank, int size, std::string name)
        : Group(std::move(name), rank, size), world_(world), id_(id) {
        world_.add_group(id_, n_started_);
    }

    ~TcpGroup() override { world_.remove_group(id_); }

    void abort(const std::string& reason) noexcept override { world_.abort(Exit::failure, reason); }
    bool relays_messages() const override { return true; }
    i64 next_collective_number() override { return n_started_.fetch_add(1); }
    std::string timeout_message(const Operation& operation, i64 number, double waited_s) override {
        const bool collective = number >= 0;
        const size_t n_asked = collective ? static_cast<size_t>(size() - 1) : 1;
        std::vector<RankStatus> statuses =
            world_.ask(id_, collective ? -1 : operation.peer, n_asked);
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

  protected:
    i64 start(const Operation& o) override {
        world_.check_failure();
        const auto* const data = static_cast<const std::byte*>(o.in);
        if (o.n > max_elements(o, size())) {
            run_error(fmt::format("group '{}'", name()),
                      "{}: TCP carries at most {} elements: use MPI", o.str(),
                      max_elements(o, size()));
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

    void wait(i64 handle) override {
        const Started* const started = pending_.find(handle);
        if (started == nullptr) return;
        const Operation& o = started->operation;
        const FrameBytes bytes = wait_for(*started);
        const i64 wanted = o.kind == OperationKind::all_gather ? o.bytes() * size() : o.bytes();
        if (o.out != nullptr && static_cast<i64>(bytes.size()) != wanted) {
            fail(Exit::bug, fmt::format("group '{}'", name()), "{}: expected {} bytes, got {}",
                 o.str(), wanted, bytes.size());
        }
        if (o.out != nullptr && wanted > 0) std::memcpy(o.out, bytes.data(), bytes.size());
        pending_.close(handle);
    }

    bool done(i64 handle) override {
        const Started* const started = pending_.find(handle);
        if (started == nullptr) return true;
        if (!world_.has_arrived(started->key)) return false;
        wait(handle);
        return true;
    }

    std::unique_ptr<Group> make_part(int color, int key, std::string part_name) override {
        const Started started{{OperationKind::split}, {id_, -1, next_collective_number()}};
        world_.send(frame_of({OperationKind::split}, started.key.number),
                    bytes_of(SplitChoice{color, key}));
        const auto part = read_as<SplitResult>(wait_for(started));
        return std::make_unique<TcpGroup>(world_, part.group, part.rank, part.size,
                                          std::move(part_name));
    }

  private:
    struct Started {
        Operation operation;
        TcpWorld::Key key;
    };
    Frame frame_of(const Operation& o, i64 number) const {
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

    FrameBytes wait_for(const Started& started) {
        const double timeout_s = time_until_asking(world_.options().timeout_s, rank());
        if (auto bytes = world_.wait_for(started.key, timeout_s)) return std::move(*bytes);
        const i64 number = started.key.member < 0 ? started.key.number : -1;
        const std::string text = timeout_message(started.operation, number, timeout_s);
        world_.abort(Exit::failure, fmt::format("group '{}': {}", name(), text));
        run_error(fmt::format("group '{}'", name()), "{}", text);
    }

    TcpWorld& world_;
    u64 id_;                                  // the hub's number of this group
    std::atomic<i64> n_started_{0};           // collectives; the answering thread reads it
    std::map<int, i64> n_sent_, n_received_;  // numbers of messages, by member
    PendingOperations<Started> pending_;
};

}  // namespace

std::unique_ptr<Group> tcp_group(TcpWorld& world) {
    return std::make_unique<TcpGroup>(world, 0, world.rank(), world.size(), "world");
}

}  // namespace lm::comm
