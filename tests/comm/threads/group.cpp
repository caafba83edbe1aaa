// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/group.hpp"

#include "base/error.hpp"

namespace lm::comm {

void ThreadsGroup::abort(const std::string& reason) noexcept {
    ThreadsWorld& world = hub_->world();
    const std::string text =
        "rank " + std::to_string(hub_->world_rank(rank())) + " gave up: " + reason;
    const std::exception_ptr current =
        std::current_exception();  // an exception handler may call abort()
    // If abort() is called while an exception is handled, the run ends with that exception and its
    // exit code.
    world.fail(text, current ? current : std::make_exception_ptr(Error(Exit::failure, text)));
    world.drain();
}

i64 ThreadsGroup::start(const Operation& operation) {
    const i64 handle = pending_.open();
    *pending_.find(handle) = is_message(operation.kind)
                                 ? Started{nullptr, hub_->post_message(rank(), operation)}
                                 : Started{hub_->post(rank(), operation), nullptr};
    return handle;
}

void ThreadsGroup::wait(i64 handle) {
    const Started* started = pending_.find(handle);
    if (!started) return;
    if (started->collective) hub_->wait(rank(), *started->collective);
    if (started->message) hub_->wait(rank(), *started->message);
    finish(handle, *started);
}

bool ThreadsGroup::done(i64 handle) {
    const Started* started = pending_.find(handle);
    if (!started) return true;
    if (hub_->world().failed()) hub_->world().throw_failure();
    // In virtual time, an operation may end later than this rank's clock although its data is
    // already copied. Such an operation is not done yet.
    const bool complete = started->collective
                              ? hub_->done(*started->collective) &&
                                    hub_->has_passed(rank(), started->collective->finished_at)
                              : started->message->complete.load() &&
                                    hub_->has_passed(rank(), started->message->finished_at);
    if (complete) finish(handle, *started);
    return complete;
}

std::unique_ptr<Group> ThreadsGroup::make_part(int color, int key, std::string part_name) {
    Collective* collective =
        hub_->post(rank(), {OperationKind::split}, {{color, key}, std::move(part_name)});
    hub_->wait(rank(), *collective);
    const auto [hub, member] = collective->parts[static_cast<size_t>(rank())];
    hub_->finish(rank(), collective);
    return std::make_unique<ThreadsGroup>(hub, member);
}

void ThreadsGroup::finish(i64 handle, const Started& started) {
    if (started.collective) hub_->finish(rank(), started.collective);
    if (started.message) hub_->finish(rank(), started.message);
    pending_.close(handle);
}

}  // namespace lm::comm
