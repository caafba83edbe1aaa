// SPDX-License-Identifier: Apache-2.0
// A group that carries device memory by NCCL and host memory by another group (`host`: MPI or TCP).
// Only start() distinguishes the two kinds of memory. The collectives of both groups are numbered
// in one sequence, so that a timeout in either group can name the missing rank.
//
// Collectives in device memory run in a stream of the group. start() makes this stream wait for all
// work of the compute stream so far; wait() makes the compute stream wait for the result. The CPU
// waits in neither function. So work enqueued after wait() sees the results, and work enqueued
// before start() may still use the operation's memory.
//
// Messages have one channel for each peer and direction, because NCCL runs the sends and receives
// of one communicator in sequence. connect() forms all channels and makes their connections. An
// operation that connect()'s Traffic does not contain has no channel, which is a bug.
//
// An NCCL kernel occupies its SMs from its start on this rank, and polls until the other ranks have
// started it, too. A posted receive waits during most of a step. So links get few SMs
// (cost::nccl_link_channels), and collectives that overlap compute get fewer than NCCL's default
// (cost::nccl_overlap_channels). NCCL_MAX_CTAS overrides both.
//
// Precision and order of sums: for sums of bf16 and fp16, NCCL adds two values at a time and rounds
// each partial sum to 16 bits (NCCL src/device/reduce_kernel.h, SPECIALIZE_REDUCE of FuncSum:
// __hadd2). A sum over n ranks is rounded up to n - 1 times; groups of threads and groups over TCP
// add in fp32 and round once. The order of a sum depends on the ranks, the size and the algorithm
// that NCCL chooses for them, so the same machines compute the same bits. NVLS adds in fp32 inside
// the switches, in an unspecified order; --deterministic-mode disables it
// (train/start/gpu_environment.hpp).
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
    // Returns a group of the ranks of `host`. Collective.
    static std::unique_ptr<NcclGroup> create(std::shared_ptr<NcclWorld> world,
                                             std::shared_ptr<comm::Group> host, std::string name);
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
        NcclChannel* channel = nullptr;  // nullptr: the operation is on_host
        ChannelOperation* on_device = nullptr;
    };

    NcclGroup(std::shared_ptr<NcclWorld> world, std::shared_ptr<comm::Group> host,
              std::string name);

    bool on_device(const comm::Operation& operation) const;
    i64 start_on_device(const comm::Operation& operation, const ChannelOperation* after);
    void copy(const comm::Operation& operation);
    void form_collectives(const comm::Traffic& traffic);
    void form_link(int from, int to);
    const std::shared_ptr<NcclChannel>& channel_for(const comm::Operation& operation) const;
    void end();

    std::shared_ptr<NcclWorld> world_;
    std::shared_ptr<comm::Group> host_;
    std::shared_ptr<comm::Group> ids_;      // carries the ncclUniqueIds
    std::shared_ptr<NcclChannel> channel_;  // for collectives
    std::map<std::pair<int, comm::OperationKind>, std::shared_ptr<NcclChannel>> links_;
    comm::PendingOperations<Started> pending_;
    int exceptions_at_start_;
};

}  // namespace lm::cuda
