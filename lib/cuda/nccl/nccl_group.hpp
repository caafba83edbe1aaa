// SPDX-License-Identifier: Apache-2.0
// A group whose device memory travels by NCCL and whose host memory by another group (MPI, or what
// the ranks met over): start() looks where the memory lies, and nowhere else does that matter. Both
// count their collectives in one sequence, so that a rank that is missed is named for either.
//
// Collectives run in a stream of the group's own: start() has it wait for what the compute stream
// was told so far, wait() has the compute stream wait for the result; the host waits for neither.
// So work that is told to the device behind wait() finds the results, and what was told before
// start() may still use the operation's memory.
//
// Messages have a channel for each neighbour and direction: NCCL's sends and receives of one
// communicator would wait for each other. All channels are formed, and their connections made, by
// connect(): there is none for what was not announced.
//
// A kernel of NCCL keeps its multiprocessors from the moment its rank comes to it, spinning until
// the others have come too. A posted receive waits for most of a step, so links get few of them,
// and collectives beside compute not all that NCCL would take; NCCL_MAX_CTAS overrides both.
//
// NCCL adds in an order that depends on the ranks, the size and the algorithm that it picks for
// them: the same machines give the same bits. The one algorithm that adds inside of switches is
// left out (nccl.cpp).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "comm/group.hpp"
#include "comm/pending_operations.hpp"
#include "cuda/nccl/nccl_world.hpp"

namespace lm::cuda {

class NcclGroup final : public comm::Group {
  public:
    NcclGroup(std::shared_ptr<NcclWorld> world, std::shared_ptr<comm::Group> host,
              std::string name);
    ~NcclGroup() override;

    void connect(const comm::Traffic& traffic) override;
    void warm_up(const comm::Operation& largest) override;
    void abort(const std::string& reason) noexcept override;
    i64 next_collective_number() override { return host_->next_collective_number(); }
    std::string timeout_message(const comm::Operation& operation, i64 number,
                                double waited_s) override {
        return host_->timeout_message(operation, number, waited_s);
    }

  protected:
    i64 start(const comm::Operation& operation) override;
    void wait(i64 handle) override;
    bool done(i64 handle) override;
    bool is_stream_ordered(i64 handle) override;
    i64 start_after(const comm::Operation& operation, Group& other, i64 handle) override;
    std::unique_ptr<comm::Group> make_part(int color, int key, std::string name) override;

  private:
    struct Started {
        comm::Work on_host;
        Channel* channel = nullptr;  // none: on_host
        Flight* flight = nullptr;
    };

    bool on_device(const comm::Operation& operation) const;
    i64 start_on_device(const comm::Operation& operation, const Flight* behind);
    void copy(const comm::Operation& operation);
    void form_collectives(bool overlaps_compute);
    void form_link(int from, int to);
    const std::shared_ptr<Channel>& channel_for(const comm::Operation& operation) const;
    void end();

    std::shared_ptr<NcclWorld> world_;
    std::shared_ptr<comm::Group> host_;
    std::shared_ptr<comm::Group> ids_;  // carries what NCCL's ranks meet by
    std::shared_ptr<Channel> channel_;  // of the collectives
    std::map<std::pair<int, comm::Kind>, std::shared_ptr<Channel>> links_;
    comm::PendingOperations<Started> pending_;
    int exceptions_at_start_;
};

}  // namespace lm::cuda
