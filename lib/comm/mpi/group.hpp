// SPDX-License-Identifier: Apache-2.0
// A group over its own MPI communicator, with MPI's nonblocking operations. An operation with more
// elements than an MPI call can count (int) is divided into several calls.
//
// Every MPI call holds world_.mutex(), because the library is initialized with
// MPI_THREAD_SERIALIZED. A blocking MPI call would keep the mutex from the thread that answers
// other ranks, so waits are loops of MPI_Testall.
#pragma once

#include <mpi.h>

#include <atomic>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "comm/mpi/world.hpp"
#include "comm/pending_operations.hpp"

namespace lm::comm {

class MpiGroup final : public Group {
  public:
    // Takes ownership of `comm`. `id` is equal on all members, and differs between groups.
    MpiGroup(MpiWorld& world, MPI_Comm comm, std::string name, u64 id);
    ~MpiGroup() override;

    void abort(const std::string& reason) noexcept override;
    i64 next_collective_number() override { return n_started_.fetch_add(1); }
    std::string timeout_message(const Operation& operation, i64 number, double waited_s) override;

  protected:
    i64 start(const Operation& operation) override;
    void wait(i64 handle) override;
    bool done(i64 handle) override;
    std::unique_ptr<Group> make_part(int color, int key, std::string name) override;

  private:
    struct Started {
        Operation operation;
        i64 number = 0;
        std::vector<MPI_Request> requests;
        // For an in-place reduce-scatter, MPI writes the result to the front of `in`, and finish()
        // copies the result from this address to operation.out. For other operations nullptr.
        const void* copy_from = nullptr;
    };

    void start_all_reduce(Started& started);
    void start_broadcast(Started& started);
    void start_message(Started& started);
    void start_all_gather(Started& started);
    void start_reduce_scatter(Started& started);
    void start_reduces(Started& started);
    MPI_Request* add_request(Started& started);
    void wait_for(Started& started);
    bool test(Started& started);
    void finish(Started& started);
    void check_received(const Started& started);
    void check(int code, const Operation& operation);
    void compare_with_members(const Operation& operation, i64 number);
    [[noreturn]] void fail_with(Exit code, const std::string& text);
    std::vector<int> world_ranks(const std::vector<int>& members) const;
    std::string describe(const Operation& operation) const;

    MpiWorld& world_;
    MPI_Comm comm_;
    // The communicator of compare_with_members(); MPI_COMM_NULL when operations are not checked.
    MPI_Comm check_comm_ = MPI_COMM_NULL;
    u64 id_;
    std::atomic<i64> n_started_{0};  // collectives; the answering thread reads it
    PendingOperations<Started> pending_;
    std::vector<MPI_Status> statuses_;  // results of the last MPI_Testall
};

}  // namespace lm::comm
