// SPDX-License-Identifier: Apache-2.0
// The communication of a job whose ranks connect over TCP, because no MPI launcher started them.
// Each rank has a connection to the hub on rank 0 (comm/tcp/hub.hpp) and a thread that reads from
// it. All data passes through rank 0, so TCP carries only the small values that ranks exchange when
// they train on GPUs. NCCL carries the tensors.
//
// Threads: the rank's own thread starts and waits for operations. The reading thread stores
// received frames in arrived_ and answers other ranks that ask for this rank's status. The thread
// that monitors NCCL may call ask() and abort(). mutex_ guards all members that threads share. A
// thread holds sending_ while it sends a frame, so that frames do not mix. asking_ allows one ask()
// of this rank at a time. Order of locks: asking_, then sending_, then mutex_.
//
// Failure: the hub sends the first failure of the job to all ranks, and all later operations of
// this rank throw. If a rank starts no operation within 20 s after the failure, its reading thread
// ends the process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/launch.hpp"
#include "comm/rank_status.hpp"
#include "comm/tcp/frame.hpp"
#include "comm/tcp/hub.hpp"
#include "comm/tcp/rendezvous.hpp"

namespace lm::comm {

class TcpWorld final : public Launch {
  public:
    TcpWorld(const Meeting& meeting, const LaunchOptions& options);
    ~TcpWorld() override;
    // Connects this rank to the other ranks. Call it once, before all other members. Blocks until
    // all ranks have connected. Throws Error(failure) naming the missing ranks after
    // options.timeout_s. Collective.
    void join();
    Group& world() override { return *group_; }
    std::string describe() const override;
    std::optional<Error> ended_before(const Error& own) noexcept override;
    bool carries_tensors() const override { return size() == 1; }

    // Identifies the frame that an operation waits for: the result of the group's collective
    // `number` (member -1), or message `number` from a member.
    struct Key {
        u64 group = 0;
        int member = -1;
        i64 number = 0;
        friend auto operator<=>(const Key&, const Key&) = default;
    };

    int rank() const { return meeting_.rank; }
    int size() const { return meeting_.size; }
    const LaunchOptions& options() const { return options_; }

    // Sends a frame to the hub.
    void send(Frame frame, const FrameBytes& bytes);
    bool has_arrived(const Key& key);
    // Removes and returns the bytes of frame `key`; nullopt when it has not arrived after
    // `seconds`. Throws Error when the job has failed.
    std::optional<FrameBytes> wait_for(const Key& key, double seconds);
    // Throws Error when the job has failed.
    void check_failure();

    // Registers a group for the thread that answers questions about groups. `n_started` counts the
    // collectives that this rank has started.
    void add_group(u64 id, const std::atomic<i64>& n_started);
    void remove_group(u64 id);
    // Asks member `member` of a group (-1: all other members) for its status. `n_asked`: the number
    // of ranks that are asked. Blocks for 5 s at most.
    std::vector<RankStatus> ask(u64 group, int member, size_t n_asked);
    // Ends the job with this reason and exit code, unless another rank has failed before.
    void abort(Exit code, const std::string& reason) noexcept;

  private:
    void start_hub(const Deadline& deadline);
    void leave(bool failing);
    void read();
    void handle(const Frame& frame, FrameBytes bytes);
    void answer(const Frame& question);
    void fail(Exit code, const std::string& text);
    void lose_hub();
    bool reports_failure() const;

    Meeting meeting_;
    LaunchOptions options_;
    int exceptions_at_start_;
    std::unique_ptr<TcpHub> hub_;  // on rank 0
    Socket socket_;
    std::mutex asking_;
    std::mutex sending_;
    std::mutex mutex_;  // guards the members from arrived_ to leaving_
    std::condition_variable changed_;
    std::map<Key, FrameBytes> arrived_;
    std::map<u64, const std::atomic<i64>*> groups_;
    std::vector<RankStatus> statuses_;  // answers to the open question
    size_t n_answers_ = 0;
    bool failed_ = false;  // if true, code_ and reason_ are set
    Exit code_ = Exit::failure;
    std::string reason_;
    bool hub_failed_ = false;  // the hub has sent the job's first failure
    int first_failed_ = -1;    // the rank with the first failure; -1: not known
    Exit first_code_ = Exit::failure;
    std::string first_reason_;
    bool hub_lost_ = false;  // the connection ended before the hub sent a failure
    bool noticed_ = false;   // the rank's own thread knows of the failure
    bool leaving_ = false;
    std::unique_ptr<Group> group_;
    std::thread thread_;
};

// Returns the group of all ranks of `world`, with the hub's number 0.
std::unique_ptr<Group> tcp_group(TcpWorld& world);

}  // namespace lm::comm
