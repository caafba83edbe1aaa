// SPDX-License-Identifier: Apache-2.0
// Data parallelism of one rank. Sums the gradients over the replicas, bucket by bucket: all
// gradients (stage 0), or only the gradients of the rank's own parts (ZeRO-1). With ZeRO-1, also
// gathers the updated weights. Both can overlap with compute. Gradients are reduced from the end of
// the buffer towards its beginning, as backward completes them. Weights are gathered in the order
// in which forward reads them.
#pragma once

#include <vector>

#include "comm/group.hpp"
#include "parallel/buckets.hpp"
#include "spec/data_parallel_config.hpp"

namespace lm::parallel {

class DataParallel {
  public:
    // weights: [E] compute, gradients: [E] fp32, with E = padded_elements(n_elements,
    // group.size()). `shared_end`: see divide_into_buckets(). The memory and the group must outlive
    // this object.
    DataParallel(comm::Group& group, int zero_stage, const spec::DataParallelConfig& config,
                 device::View weights, device::View gradients, i64 n_elements, i64 shared_end);

    const std::vector<Range>& owned() const { return owned_; }  // ascending
    // Returns the elements that this rank's optimizer updates: owned() with ZeRO-1, else all.
    const std::vector<Range>& updated() const { return updated_; }
    bool sharded() const { return zero_stage_ == 1; }

    // Connects the group for the collectives of a step. This runs collectives in the buffers, which
    // must contain only zeros before the call and contain only zeros after it. So call it before
    // weights are set. Collective.
    void warm_up();
    // Call this when backward has completed the gradients of [from, E). With overlap_grad_reduce,
    // starts to reduce the buckets that begin at `from` or later.
    void gradients_final(i64 from);
    // Reduces the remaining buckets and waits for all buckets. Afterwards the gradients of
    // updated() are summed; with ZeRO-1 the other gradients are undefined.
    void finish_reduce();

    // Starts to gather the updated weights. Without overlap_param_gather, also waits for them.
    void start_gather();
    // Gathers the weights after each rank has set only its owned() elements. Collective.
    void gather_owned();
    // Waits (comm::Work::wait()) until weights [0, end) are gathered.
    void wait_weights(i64 end);
    void finish_gather() { wait_weights(buckets_.back().end); }

    // Drives pending operations in libraries that make progress only when called (MPI).
    void poll();

  private:
    void start_reduce(size_t bucket);
    void start_gathers();

    comm::Group& group_;
    int zero_stage_;
    device::View weights_;    // [E] compute
    device::View gradients_;  // [E] fp32
    spec::DataParallelConfig config_;
    std::vector<Range> buckets_, owned_, updated_;
    std::vector<comm::Work> work_;  // by bucket: its reduction, later its all-gather
    size_t not_reduced_ = 0;        // reductions of the first not_reduced_ buckets are not started
    size_t gathered_ = 0;           // the first gathered_ buckets have weights that may be read
};

}  // namespace lm::parallel
