// SPDX-License-Identifier: Apache-2.0
// The state that all NCCL groups of one rank share: the device, the mutex that every NCCL call
// locks, and a monitor thread for all channels. The monitor polls NCCL for errors and detects
// operations that exceed the timeout. In both cases it finds the missing ranks through the host
// group (MPI or TCP) and aborts all pending operations, so that a rank that is blocked on its GPU
// wakes up and throws.
//
// A communicator must not be aborted while a thread is inside a call with this communicator (NCCL
// user guide, "Thread Safety"), so aborting locks the mutex, too. If the rank hangs in an NCCL
// call, the monitor cannot lock the mutex; after the timeout it aborts the job through the host
// group.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/nccl/nccl_channel.hpp"

namespace lm::cuda {

class NcclWorld {
  public:
    // Starts the monitor thread. `host` is aborted when this rank does not react to a failure.
    static std::shared_ptr<NcclWorld> start(CudaDevice& device, std::shared_ptr<comm::Group> host,
                                            double timeout_s);
    ~NcclWorld();
    NcclWorld(const NcclWorld&) = delete;
    NcclWorld& operator=(const NcclWorld&) = delete;

    CudaDevice& device() { return device_; }
    std::timed_mutex& mutex() { return mutex_; }
    double timeout_s() const { return timeout_s_; }

    // Initializes the communicator of a new channel with `ids`, runs the channel's first
    // operations, which make connections, and adds the channel to the monitored channels. Throws
    // Error(failure) on timeout. Collective over the channel's ranks.
    void form(const std::shared_ptr<NcclChannel>& channel, const std::vector<ncclUniqueId>& ids);
    // Runs operations of the same kind and in the same memory as `largest`; their sizes double up
    // to the size of `largest`. NCCL chooses an algorithm by kind, type and size, and makes
    // connections when it first uses an algorithm (since 2.22, NCCL_RUNTIME_CONNECT). So no later
    // operation of these sizes makes a connection. Collective over the channel's ranks.
    void warm_up(const std::shared_ptr<NcclChannel>& channel, const comm::Operation& largest);
    // Enqueues an operation (NcclChannel::start()).
    ChannelOperation* start(const std::shared_ptr<NcclChannel>& channel,
                            const comm::Operation& operation, i64 number,
                            const ChannelOperation* after);

    // Throws Error(failure) with the reason of the first failure, if there was one.
    void require_healthy();
    // Records the first failure and aborts all channels. Any thread may call it.
    void fail(const std::string& text) noexcept;
    bool failed() const { return failed_.load(); }
    // Calls `attempt`, with the mutex locked, until `attempt` returns true. Throws when a failure
    // was recorded.
    void until(const std::function<bool()>& attempt);

  private:
    NcclWorld(CudaDevice& device, std::shared_ptr<comm::Group> host, double timeout_s)
        : device_(device), host_(std::move(host)), timeout_s_(timeout_s) {}

    // The NCCL call that the rank is in, for the monitor.
    struct Call {
        std::shared_ptr<NcclChannel> channel;
        ChannelOperation operation;
    };

    void perform(const std::shared_ptr<NcclChannel>& channel,
                 const std::vector<comm::Operation>& operations);
    ChannelOperation* call(const std::shared_ptr<NcclChannel>& channel,
                           const ChannelOperation& operation, const ChannelOperation* after);
    void monitor();
    void poll_channels();
    void fail_in_call(double waited_s);
    bool lock_in_time(std::unique_lock<std::timed_mutex>& lock);
    void report(NcclChannel& channel, const ChannelError& error);
    void abort_job_if_unnoticed();
    void abort_all() noexcept;

    CudaDevice& device_;
    std::shared_ptr<comm::Group> host_;
    double timeout_s_;
    std::timed_mutex mutex_;
    std::vector<std::weak_ptr<NcclChannel>> channels_;
    std::mutex call_mutex_;
    Call call_;  // the NCCL call that the rank is in or enters; without a channel: none
    double blocked_since_s_ = -1;  // when the monitor began to wait for mutex_; -1: not waiting
    std::mutex state_mutex_;       // guards stop_, reason_ and aborting_
    std::condition_variable woken_;
    bool stop_ = false;
    std::atomic<bool> failed_{false};
    std::atomic<bool> noticed_{false};  // the rank has thrown an exception that states the failure
    std::string reason_;
    std::future<void> aborting_;  // the thread that aborts all communicators after a failure
    double failed_at_s_ = 0;
    std::thread thread_;
};

}  // namespace lm::cuda
