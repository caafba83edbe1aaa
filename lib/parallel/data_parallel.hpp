// SPDX-License-Identifier: Apache-2.0
// Data parallelism of one rank: its gradients summed over the replicas bucket by bucket, all of
// them (stage 0) or its own parts only (ZeRO-1), and with ZeRO-1 the updated weights gathered
// again. Both can go on while the model computes: gradients from the end of the buffer towards its
// beginning as backward completes them, weights in the order in which forward needs them.
#pragma once

#include <vector>

#include "comm/group.hpp"
#include "parallel/buckets.hpp"

namespace lm::parallel {

struct DataParallelConfig {
    i64 bucket_elements = 40'000'000;   // --ddp-bucket-size
    bool overlap_grad_reduce = false;   // --overlap-grad-reduce
    bool overlap_param_gather = false;  // --overlap-param-gather
};

class DataParallel {
  public:
    // `weights` and `gradients` are flat buffers of padded_elements(n_elements, group.size());
    // `shared_end` as in cut_buckets(). The views and the group outlive this.
    DataParallel(comm::Group& group, int zero_stage, const DataParallelConfig& config,
                 device::View weights, device::View gradients, i64 n_elements, i64 shared_end);

    const std::vector<Range>& owned() const { return owned_; }  // ascending
    // What this rank's optimizer updates: what it owns, or everything.
    const std::vector<Range>& updated() const { return updated_; }
    bool sharded() const { return zero_stage_ == 1; }

    // Rehearses what is to come, while gradients and weights are zeros.
    void warm_up();
    // The gradients of elements from `from` on are final: begins to reduce the buckets that lie
    // there, when that may overlap with backward.
    void gradients_final(i64 from);
    // Sums what is left. Afterwards the gradients are whole where this rank updates.
    void finish_reduce();

    // The weights were updated: begins to gather them. Without overlap it waits for them too.
    void start_gather();
    // Weights [0, end) may be read.
    void wait_weights(i64 end);
    void finish_gather() { wait_weights(buckets_.back().end); }

    // Lets operations under way go on where the library needs to be called for that.
    void poll();

  private:
    void start_reduce(size_t bucket);

    comm::Group& group_;
    int zero_stage_;
    device::View weights_, gradients_;
    DataParallelConfig config_;
    std::vector<Range> buckets_, owned_, updated_;
    std::vector<comm::Work> work_;  // of each bucket: its reduction, then its gathering
    size_t not_reduced_ = 0;        // buckets whose reduction has not begun: the first so many
    size_t gathered_ = 0;           // buckets whose weights may be read: the first so many
};

}  // namespace lm::parallel
