// SPDX-License-Identifier: Apache-2.0
// This process's part of an MPI job.
//
// Threads: the rank's own thread, and a thread that sends this rank's status to ranks that ask for
// it after a timeout. The thread that monitors NCCL may ask other ranks, too. MPI is called only
// under mutex(). The mutex is recursive, because groups lock it and call check() and world_ranks(),
// which lock it again.
//
// Failure: MPI cannot continue after it has lost a process. A rank that fails sets failed_ and
// makes no more MPI calls before it exits, because memory of its pending operations may be freed.
// The rank prints its error and exits. Its on_exit handler then calls MPI_Abort, which ends all
// ranks with the exit code of the failed rank.
//
// Without a failure, the memory of this class does not grow with the number of ranks.
#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/launch.hpp"
#include "comm/mpi/datatypes.hpp"
#include "comm/rank_status.hpp"

namespace lm::comm {

class MpiWorld final : public Launch {
  public:
    explicit MpiWorld(const LaunchOptions& options);
    ~MpiWorld() override;
    // Initializes MPI. Call it once, before all other members. Collective over the job.
    void join();
    Group& world() override { return *group_; }
    std::string describe() const override;

    const LaunchOptions& options() const { return options_; }
    const MpiOps& ops() const { return *ops_; }
    std::recursive_mutex& mutex() { return mutex_; }
    int size() const { return size_; }
    // Returns how long a waiting rank polls before it yields its core.
    double spin_s() const { return spin_s_; }

    // Registers a group for the thread that answers questions about groups. `n_started` counts the
    // collectives that this rank has started.
    void add_group(u64 id, const std::atomic<i64>& n_started);
    void remove_group(u64 id);

    // Asks the ranks for their status in the group with this id, and all ranks of the job for a
    // dump of their flight recorders. Blocks for 7 s at most. Called by the thread whose operation
    // timed out.
    std::vector<RankStatus> ask(const std::vector<int>& ranks, u64 group);
    // Calls ask(). If all of `ranks` answer, asks all other ranks, too, and appends the ranks that
    // do not answer, because in a chain of messages `ranks` may wait for such a rank. Blocks for 14
    // s at most.
    std::vector<RankStatus> ask_for_silent(const std::vector<int>& ranks, u64 group);

    // Marks this rank as failed, so that it makes no more MPI calls.
    void fail() { failed_.store(true); }
    bool failed() const { return failed_.load(); }
    // Ends all processes of the job at once, with exit code `code`.
    [[noreturn]] void end(Exit code);

  private:
    struct Question;
    struct Answer;
    void exchange_hosts();
    void choose_spin();
    void answer_questions();
    void answer_one(int asker);
    void put_questions(const std::vector<int>& ranks, u64 group, std::deque<Question>& questions,
                       std::deque<MPI_Request>& requests);
    void collect_answers(size_t n_wanted, double seconds, std::vector<Answer>& answers);
    void stop_answering();

    LaunchOptions options_;
    int exceptions_at_start_;
    int rank_ = 0;
    int size_ = 1;
    double spin_s_ = 0;
    std::string host_;
    // Host name of rank (own - size / 2) mod size. Every answer of this rank contains the name, so
    // that other ranks can report the host of a rank that does not answer.
    std::string kept_host_;
    std::unique_ptr<MpiOps> ops_;
    MPI_Comm control_ = MPI_COMM_NULL;  // carries questions and answers
    std::recursive_mutex mutex_;
    std::map<u64, const std::atomic<i64>*> groups_;
    // Buffers of answers. The buffers are reused in turn, because MPI may still be sending the
    // latest answers.
    std::vector<Answer> sent_;
    size_t next_sent_ = 0;
    std::unique_ptr<Group> group_;
    std::atomic<bool> failed_{false};
    std::atomic<bool> asked_to_dump_{false};  // another rank has asked all ranks for dumps
    bool stop_ = false;
    std::mutex stop_mutex_;
    std::condition_variable stopped_;
    std::thread answering_;
};

// Returns the group of all ranks of `world`. Takes ownership of `comm`.
std::unique_ptr<Group> mpi_group(MpiWorld& world, MPI_Comm comm);

}  // namespace lm::comm
