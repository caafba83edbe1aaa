// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl_world.hpp"

#include <chrono>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace lm::cuda {
namespace {

constexpr auto interval = std::chrono::milliseconds(100);
constexpr auto interval_while_forming = std::chrono::milliseconds(2);
// Polls without pause before a waiting rank lets others have its core.
constexpr int eager_attempts = 1000;
constexpr auto pause_between_attempts = std::chrono::microseconds(50);
// A rank that waits for its GPU wakes up when the operations under way are stopped. One that does
// not within this time is stuck in the driver, and the job is ended without it.
constexpr double ignored_s = 20;

}  // namespace

NcclWorld::NcclWorld(CudaDevice& device, std::shared_ptr<comm::Group> host, double timeout_s)
    : device_(device), host_(std::move(host)), timeout_s_(timeout_s) {
    device_.on_wait([this] { require_whole(); });
    thread_ = std::thread([this] { watch(); });
}

NcclWorld::~NcclWorld() {
    device_.on_wait({});
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    woken_.notify_all();
    thread_.join();
    if (!aborting_.valid()) return;
    const std::chrono::duration<double> patience(ignored_s);
    if (aborting_.wait_for(patience) == std::future_status::timeout) host_->abort(reason_);
}

void NcclWorld::require_whole() {
    if (!failed_.load()) return;
    told_.store(true);
    const std::lock_guard lock(mutex_);
    throw Error(Exit::failure, reason_);
}

void NcclWorld::fail(const std::string& text) noexcept {
    const std::lock_guard lock(mutex_);
    if (failed_.load()) return;
    reason_ = text;
    failed_at_s_ = monotonic_s();
    failed_.store(true);
    std::vector<ncclComm_t> comms;
    for (const std::weak_ptr<Channel>& each : channels_) {
        const std::shared_ptr<Channel> channel = each.lock();
        if (!channel) continue;
        if (ncclComm_t comm = channel->take()) comms.push_back(comm);
    }
    // By a thread of its own, for it may take its time, and neither the rank nor the watch has any.
    try {
        aborting_ = std::async(std::launch::async, [comms] { abort_together(comms); });
    } catch (const std::exception&) {
        abort_together(comms);
    }
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
    bool forming = false;
    while (true) {
        {
            std::unique_lock lock(mutex_);
            woken_.wait_for(lock, forming ? interval_while_forming : interval,
                            [this] { return stop_; });
            if (stop_) return;
        }
        if (failed_.load()) {
            end_if_ignored();
            continue;
        }
        try {
            forming = look();
        } catch (const std::exception& error) {
            fail(error.what());
        }
    }
}

// True: some operation has yet to be told to NCCL.
bool NcclWorld::look() {
    std::vector<std::pair<std::shared_ptr<Channel>, Trouble>> found;
    bool forming = false;
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(channels_, [](const auto& channel) { return channel.expired(); });
        for (const std::weak_ptr<Channel>& each : channels_) {
            const std::shared_ptr<Channel> channel = each.lock();
            if (!channel) continue;
            if (auto trouble = channel->look(timeout_s_)) found.emplace_back(channel, *trouble);
            forming = forming || channel->advances();
        }
    }
    // Asking the others takes seconds, in which this rank may go on.
    if (!found.empty()) report(*found.front().first, found.front().second);
    return forming;
}

void NcclWorld::report(Channel& channel, const Trouble& trouble) {
    const Flight& flight = trouble.flight;
    const std::string object = fmt::format("group '{}'", channel.name());
    if (trouble.text.empty()) {
        return fail(
            fmt::format("{}: {}", object,
                        channel.host().missing(flight.operation, flight.number, trouble.waited_s)));
    }
    const std::string number =
        flight.number >= 0 ? fmt::format(", operation {}", flight.number) : "";
    const std::string what =
        flight.operation.n > 0 ? fmt::format("{}{}: ", flight.operation.str(), number) : "";
    fail(fmt::format("{}: {}NCCL: {}", object, what, trouble.text));
}

void NcclWorld::end_if_ignored() {
    if (told_.load() || monotonic_s() - failed_at_s_ < ignored_s) return;
    told_.store(true);
    host_->abort(reason_);
}

}  // namespace lm::cuda
