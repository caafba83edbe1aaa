// SPDX-License-Identifier: Apache-2.0
// This process's part of a job whose ranks met over TCP (tcp/rendezvous.hpp), where MPI cannot
// start: its connection to the hub on rank 0, and a thread that takes in what comes and tells
// others who ask where this rank is. It is for what ranks tell each other around a training on
// GPUs, whose tensors travel by NCCL: everything goes by way of rank 0.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
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
    Group& world() override { return *group_; }
    std::string describe() const override;
    std::optional<std::string> ended_before(const std::string& reason) noexcept override;
    bool carries_tensors() const override { return size() == 1; }

    // What an operation waits for: a group's collective of that number (member -1), or a message of
    // a member.
    struct Key {
        u64 group = 0;
        int member = -1;
        i64 number = 0;
        friend auto operator<=>(const Key&, const Key&) = default;
    };

    int rank() const { return meeting_.rank; }
    int size() const { return meeting_.size; }
    const LaunchOptions& options() const { return options_; }

    void tell(Frame frame, const Bytes& bytes);
    bool has_come(const Key& key);
    // Takes it; none: not within `seconds`. Throws Error when the job has failed.
    std::optional<Bytes> take(const Key& key, double seconds);
    void require_whole();

    void add_group(u64 id, const std::atomic<i64>& n_started);
    void remove_group(u64 id);
    std::vector<RankStatus> ask(const std::vector<int>& ranks, u64 group);
    // This rank gives up.
    void abort(const std::string& reason) noexcept;

  private:
    void leave(bool failing);
    void read();
    void handle(const Frame& frame, Bytes bytes);
    void answer(const Frame& question);
    void fail(Exit code, const std::string& text);
    void lose_hub();
    bool tells_of_failure() const;
    void join();

    Meeting meeting_;
    LaunchOptions options_;
    int exceptions_at_start_;
    std::string host_;
    std::unique_ptr<TcpHub> hub_;  // on rank 0
    Socket socket_;
    std::mutex asking_;
    std::mutex sending_;
    std::mutex mutex_;  // of what follows
    std::condition_variable changed_;
    std::map<Key, Bytes> come_;
    std::map<u64, const std::atomic<i64>*> groups_;
    std::map<int, RankStatus> statuses_;  // of the ranks that are asked about
    size_t n_answers_ = 0;
    bool failed_ = false;
    int first_failed_ = -1;  // the rank whose failure has ended the job, as the hub told
    std::string first_reason_;
    bool without_hub_ = false;  // nobody can tell any more
    bool told_ = false;         // this rank's own thread knows
    bool leaving_ = false;
    Exit code_ = Exit::failure;
    std::string reason_;
    std::unique_ptr<Group> group_;
    std::thread thread_;
};

}  // namespace lm::comm
