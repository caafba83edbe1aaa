// SPDX-License-Identifier: Apache-2.0
// What the NCCL groups of one rank share: the device, the mutex under which NCCL is called, and a
// thread that watches over all channels. It polls NCCL for errors, notices an operation that does
// not end within the timeout, finds out with the host's group who is missing, and then stops what
// is under way, so that a rank that waits for its GPU wakes up and throws.
//
// A communicator must not be stopped while a thread is inside of a call with it (NCCL user guide,
// "Thread Safety"): what stops them takes the mutex too. A rank that does not come out of a call is
// noticed by that, and the job is ended without it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/nccl/nccl_channel.hpp"

namespace lm::cuda {

class NcclWorld {
  public:
    // `host` is aborted when this rank does not notice that something has failed.
    NcclWorld(CudaDevice& device, std::shared_ptr<comm::Group> host, double timeout_s);
    ~NcclWorld();
    NcclWorld(const NcclWorld&) = delete;
    NcclWorld& operator=(const NcclWorld&) = delete;

    CudaDevice& device() { return device_; }
    std::timed_mutex& mutex() { return mutex_; }
    double timeout_s() const { return timeout_s_; }

    // Forms the communicator of a new channel, where its ranks meet by these ids, makes its first
    // connections, and watches it from then on.
    void form(const std::shared_ptr<Channel>& channel, const std::vector<ncclUniqueId>& ids);
    // Carries operations like this one of all sizes up to it, in its memory, so that none of them
    // makes connections later: NCCL does that when it takes an algorithm first (since 2.22, see
    // NCCL_RUNTIME_CONNECT), which it picks by kind, type and size.
    void warm_up(const std::shared_ptr<Channel>& channel, const comm::Operation& largest);
    // Tells the channel an operation.
    Flight* start(const std::shared_ptr<Channel>& channel, const comm::Operation& operation,
                  i64 number, const Flight* behind);

    // Throws Error(failure) with what has failed, if anything.
    void require_whole();
    // The first failure counts. Stops all channels; for any thread.
    void fail(const std::string& text) noexcept;
    bool failed() const { return failed_.load(); }
    // Calls `attempt` under the mutex until it is true, or something has failed: require_whole().
    void until(const std::function<bool()>& attempt);

  private:
    // A call of NCCL, for the watch.
    struct Call {
        std::shared_ptr<Channel> channel;
        Flight flight;
    };

    void perform(const std::shared_ptr<Channel>& channel,
                 const std::vector<comm::Operation>& operations);
    Flight* call(const std::shared_ptr<Channel>& channel, const Flight& flight,
                 const Flight* behind);
    void watch();
    void look();
    void fail_in_call(double waited_s);
    bool lock_in_time(std::unique_lock<std::timed_mutex>& lock);
    void report(Channel& channel, const Trouble& trouble);
    void end_if_ignored();
    void abort_all() noexcept;

    CudaDevice& device_;
    std::shared_ptr<comm::Group> host_;
    double timeout_s_;
    std::timed_mutex mutex_;
    std::vector<std::weak_ptr<Channel>> channels_;
    std::mutex call_mutex_;
    Call call_;                    // that the rank is in, or goes to; no channel: none
    double blocked_since_s_ = -1;  // the watch waits for the mutex
    std::mutex state_mutex_;       // of what follows
    std::condition_variable woken_;
    bool stop_ = false;
    std::atomic<bool> failed_{false};
    std::atomic<bool> told_{false};  // the rank's own thread knows
    std::string reason_;
    std::future<void> aborting_;  // of all communicators, after a failure
    double failed_at_s_ = 0;
    std::thread thread_;
};

}  // namespace lm::cuda
