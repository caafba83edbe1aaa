// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl/nccl_world.hpp"

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace lm::cuda {

using comm::Kind;
using comm::Operation;

namespace {

constexpr const char* warming_up = "warming up";
constexpr auto interval = std::chrono::milliseconds(100);
// Polls without pause before a waiting rank lets others have its core.
constexpr int eager_attempts = 1000;
constexpr auto pause_between_attempts = std::chrono::microseconds(50);
// A rank that waits for its GPU wakes up when the operations under way are stopped. One that does
// not within this time is stuck in the driver, and the job is ended without it.
constexpr double ignored_s = 20;

// All members count what they all come to, so that who has not can be told.
i64 number_of(Channel& channel, const Operation& operation) {
    return comm::is_message(operation.kind) ? -1 : channel.host().next_collective_number();
}

}  // namespace

NcclWorld::NcclWorld(CudaDevice& device, std::shared_ptr<comm::Group> host, double timeout_s)
    : device_(device), host_(std::move(host)), timeout_s_(timeout_s) {
    device_.on_wait([this] { require_whole(); });
    thread_ = std::thread([this] { watch(); });
}

NcclWorld::~NcclWorld() {
    device_.on_wait({});
    {
        const std::lock_guard lock(state_mutex_);
        stop_ = true;
    }
    woken_.notify_all();
    thread_.join();
    if (!aborting_.valid()) return;
    const std::chrono::duration<double> patience(ignored_s);
    if (aborting_.wait_for(patience) == std::future_status::timeout) host_->abort(reason_);
}

// ---- Forming and warming up ---------------------------------------------------------------------

void NcclWorld::form(const std::shared_ptr<Channel>& channel,
                     const std::vector<ncclUniqueId>& ids) {
    const std::vector<Operation> first = channel->first_operations();
    const Operation meeting{.kind = comm::is_message(first[0].kind) ? first[0].kind : Kind::split,
                            .peer = first[0].peer};
    const i64 number = number_of(*channel, meeting);
    {
        const std::lock_guard lock(mutex_);
        channels_.push_back(channel);
        channel->join(ids);
    }
    const Stopwatch watch;
    bool formed = false;
    until([&] {
        formed = channel->formed();
        return formed || watch.elapsed_s() > timeout_s_;
    });
    if (!formed) {
        run_error(fmt::format("group '{}'", channel->name()),
                  "forming its communicator: {}: NCCL_DEBUG=INFO tells more",
                  channel->host().timeout_message(meeting, number, watch.elapsed_s()));
    }
    perform(channel, first);
}

// Operations that only make connections. The watch tells who has not come to one.
void NcclWorld::perform(const std::shared_ptr<Channel>& channel,
                        const std::vector<Operation>& operations) {
    std::vector<Flight*> flights;
    for (const Operation& operation : operations) {
        flights.push_back(call(
            channel,
            {.operation = operation, .number = number_of(*channel, operation), .warm_up = true},
            nullptr));
    }
    until([&] { return channel->idle(); });
    const std::lock_guard lock(mutex_);
    for (Flight* const flight : flights) channel->release(*flight);
}

void NcclWorld::warm_up(const std::shared_ptr<Channel>& channel, const Operation& largest) {
    const auto at = [&](const void* base, i64 elements) {
        return static_cast<std::byte*>(const_cast<void*>(base)) + elements * size_of(largest.dtype);
    };
    const i64 rank = channel->host().rank();
    // A part in its place stays there.
    const bool in_place = largest.out == at(largest.in, rank * largest.n);
    const bool out_of_place = largest.in == at(largest.out, rank * largest.n);
    std::vector<Operation> operations;
    for (i64 n = 1; operations.empty() || operations.back().n < largest.n;
         n = std::min(2 * n, largest.n)) {
        Operation& operation = operations.emplace_back(largest);
        operation.n = n;
        if (largest.kind == Kind::reduce_scatter && in_place) {
            operation.out = at(largest.in, rank * n);
        }
        if (largest.kind == Kind::all_gather && out_of_place) {
            operation.in = at(largest.out, rank * n);
        }
    }
    perform(channel, operations);
}

// ---- Operations ---------------------------------------------------------------------------------

Flight* NcclWorld::start(const std::shared_ptr<Channel>& channel, const Operation& operation,
                         i64 number, const Flight* behind) {
    return call(channel, {.operation = operation, .number = number}, behind);
}

Flight* NcclWorld::call(const std::shared_ptr<Channel>& channel, const Flight& flight,
                        const Flight* behind) {
    const auto tell = [this](Call call) {
        const std::lock_guard lock(call_mutex_);
        call_ = std::move(call);
    };
    struct End {
        decltype(tell)& tell_end;
        ~End() { tell_end({}); }
    };
    tell({channel, flight});
    const End end{tell};
    const std::lock_guard lock(mutex_);
    require_whole();  // the communicators are not stopped meanwhile
    Flight* const started = channel->start(flight.operation, flight.number, behind);
    started->warm_up = flight.warm_up;
    return started;
}

void NcclWorld::require_whole() {
    if (!failed_.load()) return;
    told_.store(true);
    const std::lock_guard lock(state_mutex_);
    throw Error(Exit::failure, reason_);
}

void NcclWorld::fail(const std::string& text) noexcept {
    const std::lock_guard lock(state_mutex_);
    if (failed_.load()) return;
    reason_ = text;
    failed_at_s_ = monotonic_s();
    failed_.store(true);
    // By a thread of its own, for it may take its time, and neither the rank nor the watch has any.
    try {
        aborting_ = std::async(std::launch::async, [this] { abort_all(); });
    } catch (const std::exception&) {
        host_->abort(text);
    }
}

// Behind the rank's call, if it is in one; the rank makes no other.
void NcclWorld::abort_all() noexcept {
    cudaSetDevice(device_.index());
    Communicators comms;
    {
        const std::lock_guard lock(mutex_);
        for (const std::weak_ptr<Channel>& each : channels_) {
            if (const std::shared_ptr<Channel> channel = each.lock()) channel->take(comms);
        }
    }
    abort_together(comms);
}

void NcclWorld::until(const std::function<bool()>& attempt) {
    for (int n_attempts = 0;; ++n_attempts) {
        require_whole();
        {
            const std::lock_guard lock(mutex_);
            if (attempt()) return;
        }
        if (n_attempts > eager_attempts) std::this_thread::sleep_for(pause_between_attempts);
    }
}

// ---- The watch ---------------------------------------------------------------------------------

void NcclWorld::watch() {
    cudaSetDevice(device_.index());
    while (true) {
        {
            std::unique_lock lock(state_mutex_);
            woken_.wait_for(lock, interval, [this] { return stop_; });
            if (stop_) return;
        }
        if (failed_.load()) {
            end_if_ignored();
            continue;
        }
        try {
            look();
        } catch (const std::exception& error) {
            fail(error.what());
        }
    }
}

// False: the rank is in a call of NCCL. Fails when that does not return within the timeout.
bool NcclWorld::lock_in_time(std::unique_lock<std::timed_mutex>& lock) {
    if (lock.try_lock_for(interval)) {
        blocked_since_s_ = -1;
        return true;
    }
    if (blocked_since_s_ < 0) blocked_since_s_ = monotonic_s();
    const double waited_s = monotonic_s() - blocked_since_s_;
    if (waited_s >= timeout_s_) fail_in_call(waited_s);
    return false;
}

// The rank does not come out of a call of NCCL, and so notices nothing: the job ends without it.
void NcclWorld::fail_in_call(double waited_s) {
    Call call;
    {
        const std::lock_guard lock(call_mutex_);
        call = call_;
    }
    if (call.channel) {
        report(*call.channel, {.flight = call.flight, .text = "", .waited_s = waited_s});
    } else {
        fail(fmt::format("NCCL: a call did not return within {:.0f} s: NCCL_DEBUG=INFO tells more",
                         waited_s));
    }
    told_.store(true);
    host_->abort(reason_);
}

void NcclWorld::look() {
    std::vector<std::pair<std::shared_ptr<Channel>, Trouble>> found;
    {
        std::unique_lock lock(mutex_, std::defer_lock);
        if (!lock_in_time(lock)) return;
        std::erase_if(channels_, [](const auto& channel) { return channel.expired(); });
        for (const std::weak_ptr<Channel>& each : channels_) {
            const std::shared_ptr<Channel> channel = each.lock();
            if (!channel) continue;
            if (auto trouble = channel->look(timeout_s_)) found.emplace_back(channel, *trouble);
        }
    }
    // Asking the others takes seconds, in which this rank may go on.
    if (!found.empty()) report(*found.front().first, found.front().second);
}

void NcclWorld::report(Channel& channel, const Trouble& trouble) {
    const Flight& flight = trouble.flight;
    const std::string object = fmt::format("group '{}'", channel.name());
    const std::string phase = flight.warm_up ? fmt::format("{}: ", warming_up) : "";
    if (trouble.text.empty()) {
        return fail(fmt::format(
            "{}: {}{}", object, phase,
            channel.host().timeout_message(flight.operation, flight.number, trouble.waited_s)));
    }
    const std::string number =
        flight.number >= 0 ? fmt::format(", operation {}", flight.number) : "";
    const std::string what =
        flight.operation.n > 0 ? fmt::format("{}{}: ", flight.operation.str(), number) : "";
    fail(fmt::format("{}: {}{}NCCL: {}", object, phase, what, trouble.text));
}

void NcclWorld::end_if_ignored() {
    if (told_.load() || monotonic_s() - failed_at_s_ < ignored_s) return;
    told_.store(true);
    host_->abort(reason_);
}

}  // namespace lm::cuda
