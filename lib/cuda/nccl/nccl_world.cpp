// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl/nccl_world.hpp"

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/threads.hpp"

namespace lm::cuda {

using comm::Operation;
using comm::OperationKind;

namespace {

constexpr const char* warming_up = "warming up";
constexpr auto interval = std::chrono::milliseconds(100);  // interval of the monitor's polls
// Number of attempts after which until() pauses between attempts.
constexpr int eager_attempts = 1000;
constexpr auto pause_between_attempts = std::chrono::microseconds(50);
// A rank that is blocked on its GPU wakes up when the pending operations are aborted. If the rank
// has not noticed the failure after this time, it hangs in the driver, and the monitor aborts the
// job.
constexpr double unnoticed_s = 20;

// Returns the collective number of an operation, -1 for a message. All members count collectives
// alike, so that a timeout can name the members that have not started the collective with a given
// number.
i64 number_of(NcclChannel& channel, const Operation& operation) {
    return comm::is_message(operation.kind) ? -1 : channel.host().next_collective_number();
}

}  // namespace

std::shared_ptr<NcclWorld> NcclWorld::start(CudaDevice& device, std::shared_ptr<comm::Group> host,
                                            double timeout_s) {
    std::shared_ptr<NcclWorld> world(new NcclWorld(device, std::move(host), timeout_s));
    NcclWorld* const own = world.get();
    device.on_wait([own] { own->require_healthy(); });
    own->thread_ = start_thread([own] { own->monitor(); });
    return world;
}

NcclWorld::~NcclWorld() {
    device_.on_wait({});  // the device outlives this object
    {
        const std::lock_guard lock(state_mutex_);
        stop_ = true;
    }
    woken_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (!aborting_.valid()) return;
    const std::chrono::duration<double> limit(unnoticed_s);
    if (aborting_.wait_for(limit) == std::future_status::timeout) host_->abort(reason_);
}

// ---- Forming and warming up ---------------------------------------------------------------------

void NcclWorld::form(const std::shared_ptr<NcclChannel>& channel,
                     const std::vector<ncclUniqueId>& ids) {
    const std::vector<Operation> first = channel->first_operations();
    // The timeout message finds missing ranks by this operation of the host group, because the
    // communicator has no operations yet.
    const Operation meeting{
        .kind = comm::is_message(first[0].kind) ? first[0].kind : OperationKind::split,
        .peer = first[0].peer};
    const i64 number = number_of(*channel, meeting);
    {
        const std::lock_guard lock(mutex_);
        // The monitor polls the channel, and fail() aborts its communicator, as soon as formed()
        // has received the communicator. While join()'s helper thread is in NCCL, neither is
        // possible.
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
                  "NCCL communicator not ready: {}: set NCCL_DEBUG=INFO for details",
                  channel->host().timeout_message(meeting, number, watch.elapsed_s()));
    }
    perform(channel, first);
}

// Runs operations that only make connections. The monitor reports ranks that do not take part.
void NcclWorld::perform(const std::shared_ptr<NcclChannel>& channel,
                        const std::vector<Operation>& operations) {
    std::vector<ChannelOperation*> started;
    for (const Operation& operation : operations) {
        started.push_back(call(
            channel,
            {.operation = operation, .number = number_of(*channel, operation), .warm_up = true},
            nullptr));
    }
    until([&] { return channel->idle(); });
    const std::lock_guard lock(mutex_);
    for (ChannelOperation* const operation : started) channel->release(*operation);
}

void NcclWorld::warm_up(const std::shared_ptr<NcclChannel>& channel, const Operation& largest) {
    const auto at = [&](const void* base, i64 elements) {
        return static_cast<std::byte*>(const_cast<void*>(base)) + elements * size_of(largest.dtype);
    };
    const i64 rank = channel->host().rank();
    // In an in-place operation, the output of a reduce-scatter or the input of an all-gather is
    // this rank's part of the other buffer. The smaller operations are in place, too, if `largest`
    // is.
    const bool out_in_place = largest.out == at(largest.in, rank * largest.n);
    const bool in_in_place = largest.in == at(largest.out, rank * largest.n);
    std::vector<Operation> operations;
    // The sizes are powers of two, because NCCL chooses algorithm and protocol by size, and
    // connects at the first use of each.
    for (i64 n = 1; operations.empty() || operations.back().n < largest.n;
         n = std::min(2 * n, largest.n)) {
        Operation& operation = operations.emplace_back(largest);
        operation.n = n;
        if (largest.kind == OperationKind::reduce_scatter && out_in_place) {
            operation.out = at(largest.in, rank * n);
        }
        if (largest.kind == OperationKind::all_gather && in_in_place) {
            operation.in = at(largest.out, rank * n);
        }
    }
    perform(channel, operations);
}

// ---- Operations ---------------------------------------------------------------------------------

ChannelOperation* NcclWorld::start(const std::shared_ptr<NcclChannel>& channel,
                                   const Operation& operation, i64 number,
                                   const ChannelOperation* after) {
    return call(channel, {.operation = operation, .number = number}, after);
}

ChannelOperation* NcclWorld::call(const std::shared_ptr<NcclChannel>& channel,
                                  const ChannelOperation& operation,
                                  const ChannelOperation* after) {
    // When this thread hangs in an NCCL call, the monitor cannot lock mutex_, and reads call_ to
    // describe that call.
    const auto set_call = [this](Call call) {
        const std::lock_guard lock(call_mutex_);
        call_ = std::move(call);
    };
    struct End {
        decltype(set_call)& set;
        ~End() { set({}); }
    };
    set_call({channel, operation});
    const End end{set_call};
    const std::lock_guard lock(mutex_);
    require_healthy();  // with the mutex locked, the communicators cannot be aborted
    ChannelOperation* const started = channel->start(operation.operation, operation.number, after);
    started->warm_up = operation.warm_up;
    return started;
}

void NcclWorld::require_healthy() {
    if (!failed_.load()) return;
    noticed_.store(true);  // the rank ends by this exception, so the monitor need not abort the job
    const std::lock_guard lock(state_mutex_);
    throw Error(Exit::failure, reason_);
}

void NcclWorld::fail(const std::string& text) noexcept {
    const std::lock_guard lock(state_mutex_);
    if (failed_.load()) return;  // keeps the reason of the first failure
    reason_ = text;
    failed_at_s_ = monotonic_s();
    failed_.store(true);
    // Aborts in a separate thread, because aborting may block. Neither the rank nor the monitor may
    // wait for it.
    try {
        aborting_ = std::async(std::launch::async, [this] { abort_all(); });
    } catch (const std::exception&) {
        host_->abort(text);
    }
}

// If the rank is in an NCCL call, waits for the mutex until the rank has returned from that call.
// The rank makes no further NCCL calls, because require_healthy() throws.
void NcclWorld::abort_all() noexcept {
    cudaSetDevice(device_.index());
    Communicators comms;
    {
        const std::lock_guard lock(mutex_);
        for (const std::weak_ptr<NcclChannel>& each : channels_) {
            if (const std::shared_ptr<NcclChannel> channel = each.lock())
                channel->move_communicators(comms);
        }
    }
    abort_together(comms);
}

void NcclWorld::until(const std::function<bool()>& attempt) {
    for (int n_attempts = 0;; ++n_attempts) {
        require_healthy();
        {
            const std::lock_guard lock(mutex_);
            if (attempt()) return;
        }
        if (n_attempts > eager_attempts) std::this_thread::sleep_for(pause_between_attempts);
    }
}

// ---- The monitor thread ------------------------------------------------------------------------

void NcclWorld::monitor() {
    cudaSetDevice(device_.index());
    while (true) {
        {
            std::unique_lock lock(state_mutex_);
            woken_.wait_for(lock, interval, [this] { return stop_; });
            if (stop_) return;
        }
        if (failed_.load()) {
            abort_job_if_unnoticed();
            continue;
        }
        try {
            poll_channels();
        } catch (const std::exception& error) {
            fail(error.what());
        }
    }
}

// Tries to lock the mutex. Returns false when the mutex stays locked for `interval`, because the
// rank is in an NCCL call. Calls fail_in_call() when the mutex was locked for longer than the
// timeout.
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

// Aborts the job, because the rank hangs in an NCCL call and cannot notice a failure.
void NcclWorld::fail_in_call(double waited_s) {
    Call call;
    {
        const std::lock_guard lock(call_mutex_);
        call = call_;
    }
    if (call.channel) {
        report(*call.channel, {.culprit = call.operation, .text = "", .waited_s = waited_s});
    } else {
        fail(fmt::format(
            "NCCL: a call did not return within {:.0f} s: set NCCL_DEBUG=INFO for details",
            waited_s));
    }
    noticed_.store(true);
    host_->abort(reason_);
}

void NcclWorld::poll_channels() {
    std::vector<std::pair<std::shared_ptr<NcclChannel>, ChannelError>> found;
    {
        std::unique_lock lock(mutex_, std::defer_lock);
        if (!lock_in_time(lock)) return;
        std::erase_if(channels_, [](const auto& channel) { return channel.expired(); });
        for (const std::weak_ptr<NcclChannel>& each : channels_) {
            const std::shared_ptr<NcclChannel> channel = each.lock();
            if (!channel) continue;
            if (auto error = channel->poll(timeout_s_)) found.emplace_back(channel, *error);
        }
    }
    // The mutex is not locked during report(), which exchanges messages with the other ranks for
    // seconds.
    if (!found.empty()) report(*found.front().first, found.front().second);
}

void NcclWorld::report(NcclChannel& channel, const ChannelError& error) {
    const ChannelOperation& culprit = error.culprit;
    const std::string object = fmt::format("group '{}'", channel.name());
    const std::string phase = culprit.warm_up ? fmt::format("{}: ", warming_up) : "";
    if (error.text.empty()) {
        return fail(fmt::format(
            "{}: {}{}", object, phase,
            channel.host().timeout_message(culprit.operation, culprit.number, error.waited_s)));
    }
    const std::string number =
        culprit.number >= 0 ? fmt::format(", operation {}", culprit.number) : "";
    const std::string what =
        culprit.operation.n > 0 ? fmt::format("{}{}: ", culprit.operation.str(), number) : "";
    fail(fmt::format("{}: {}{}NCCL: {}", object, phase, what, error.text));
}

void NcclWorld::abort_job_if_unnoticed() {
    if (noticed_.load() || monotonic_s() - failed_at_s_ < unnoticed_s) return;
    noticed_.store(true);
    host_->abort(reason_);
}

}  // namespace lm::cuda
