// SPDX-License-Identifier: Apache-2.0
// A group over an MPI communicator of its own, with MPI's nonblocking operations. What needs more
// elements than an MPI call can count is cut into several calls.
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
    // Takes over `comm`. `id` is the same on all members.
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
        MPI_Datatype strided = MPI_DATATYPE_NULL;  // to be freed
        const void* copy_from = nullptr;           // n elements to `out` at the end; or none
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
    MPI_Comm check_comm_ = MPI_COMM_NULL;  // for compare_with_members only
    u64 id_;
    std::atomic<i64> n_started_{0};  // collectives
    PendingOperations<Started> pending_;
    std::vector<MPI_Status> statuses_;
};

}  // namespace lm::comm
