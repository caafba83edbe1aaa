// SPDX-License-Identifier: Apache-2.0
#include "comm/threads.hpp"

#include <thread>

#include "base/error.hpp"
#include "comm/threads_hub.hpp"
#include "comm/tickets.hpp"
#include "comm/virtual_time.hpp"

namespace lm::comm {
namespace {

class ThreadsGroup final : public Group {
  public:
    ThreadsGroup(std::shared_ptr<Hub> hub, int member)
        : Group(hub->name(), member, hub->size()), hub_(std::move(hub)) {}

    void abort(const std::string& reason) noexcept override {
        ThreadsWorld& world = hub_->world();
        const std::string text =
            "rank " + std::to_string(hub_->world_rank(rank())) + " gave up: " + reason;
        const std::exception_ptr current = std::current_exception();  // called in its handler
        world.fail(text, current ? current : std::make_exception_ptr(Error(Exit::failure, text)));
        world.drain();
    }

  protected:
    i64 start(const Operation& operation) override {
        const i64 ticket = under_way_.open();
        *under_way_.find(ticket) = is_message(operation.kind)
                                       ? Started{nullptr, hub_->post_message(rank(), operation)}
                                       : Started{hub_->post(rank(), operation), nullptr};
        return ticket;
    }

    void wait(i64 ticket) override {
        const Started* started = under_way_.find(ticket);
        if (!started) return;
        if (started->collective) hub_->wait(rank(), *started->collective);
        if (started->message) hub_->wait(rank(), *started->message);
        finish(ticket, *started);
    }

    bool done(i64 ticket) override {
        const Started* started = under_way_.find(ticket);
        if (!started) return true;
        if (hub_->world().failed()) hub_->world().throw_failure();
        const bool complete = started->collective
                                  ? hub_->done(*started->collective) &&
                                        hub_->has_passed(rank(), started->collective->finished_at)
                                  : started->message->complete.load() &&
                                        hub_->has_passed(rank(), started->message->finished_at);
        if (complete) finish(ticket, *started);
        return complete;
    }

    std::unique_ptr<Group> make_part(int color, int key, std::string part_name) override {
        Collective* collective =
            hub_->post(rank(), {Kind::split}, {color, key, std::move(part_name)});
        hub_->wait(rank(), *collective);
        const auto [hub, member] = collective->parts[static_cast<size_t>(rank())];
        hub_->finish(rank(), collective);
        return std::make_unique<ThreadsGroup>(hub, member);
    }

  private:
    struct Started {
        Collective* collective = nullptr;
        Message* message = nullptr;
    };

    void finish(i64 ticket, const Started& started) {
        if (started.collective) hub_->finish(rank(), started.collective);
        if (started.message) hub_->finish(rank(), started.message);
        under_way_.close(ticket);
    }

    std::shared_ptr<Hub> hub_;
    Tickets<Started> under_way_;
};

void run_rank(ThreadsWorld& world, const std::shared_ptr<Hub>& hub, int rank,
              const std::function<void(Group& world)>& body) {
    try {
        ThreadsGroup group(hub, rank);
        body(group);
    } catch (const std::exception& error) {
        world.fail("rank " + std::to_string(rank) + " gave up: " + error.what(),
                   std::current_exception());
    } catch (...) {
        world.fail("rank " + std::to_string(rank) + " gave up", std::current_exception());
    }
    world.rank_ended(rank);
}

void run(int n_ranks, VirtualTime* time, const std::function<void(Group& world)>& body,
         const ThreadsOptions& options) {
    LM_CHECK(n_ranks >= 1, "a run of no ranks");
    ThreadsWorld world(n_ranks, options.timeout_s);
    std::vector<int> members(static_cast<size_t>(n_ranks));
    for (int rank = 0; rank < n_ranks; ++rank) members[static_cast<size_t>(rank)] = rank;
    const auto hub = std::make_shared<Hub>(world, time, "world", std::move(members));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < n_ranks; ++rank) {
        threads.emplace_back([&, rank] { run_rank(world, hub, rank, body); });
    }
    threads.clear();  // which waits for them
    if (const std::exception_ptr first = world.first_exception()) std::rethrow_exception(first);
}

}  // namespace

void run_ranks(int n_ranks, const std::function<void(Group& world)>& body,
               const ThreadsOptions& options) {
    run(n_ranks, nullptr, body, options);
}

void run_ranks_in_virtual_time(int n_ranks, const LinkModel& links,
                               const std::function<void(Group& world, VirtualClock& clock)>& body,
                               const ThreadsOptions& options) {
    VirtualTime time{links, std::vector<double>(static_cast<size_t>(n_ranks))};
    const auto ranked = [&](Group& world) {
        VirtualClock clock(time.now_s[static_cast<size_t>(world.rank())]);
        body(world, clock);
    };
    run(n_ranks, &time, ranked, options);
}

}  // namespace lm::comm
