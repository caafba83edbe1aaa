// SPDX-License-Identifier: Apache-2.0
// The communication of tensor and sequence parallelism: Megatron's operators f and g (Shoeybi et
// al. 2019, "Megatron-LM", section 3), or with sequence parallelism g and g-bar (Korthikanti et al.
// 2022, "Reducing activation recomputation", section 4.2.2). Between the linear layers each rank
// holds the whole residual stream [N, C], or with sequence parallelism its rows [N / ranks, C].
// With one rank no data is moved and every function returns its argument.
#pragma once

#include "comm/group.hpp"

namespace lm::model {

using device::View;

class TensorParallel {
  public:
    // `group` outlives this object; nullptr: one rank.
    TensorParallel(comm::Group* group, bool sequence_parallel)
        : group_(group),
          rank_(group != nullptr ? group->rank() : 0),
          size_(group != nullptr ? group->size() : 1),
          sequence_parallel_(sequence_parallel && size_ > 1) {}

    comm::Group& group() const { return *group_; }  // call it only when there are several() ranks
    int rank() const { return rank_; }
    int size() const { return size_; }
    bool several() const { return size_ > 1; }
    bool first() const { return rank_ == 0; }
    // Returns whether the ranks divide the rows of norms, dropout and residuals among them.
    bool sequence_parallel() const { return sequence_parallel_; }

    // Returns this rank's rows, [R, C] compute, of `all`, [N, C] compute.
    View own_rows(const View& all) const;
    // Returns the index of this rank's first row among all rows, when each rank has `n_rows` rows.
    i64 first_row(i64 n_rows) const { return sequence_parallel_ ? rank_ * n_rows : 0; }

    // Gathers the rows of all ranks for a column-parallel layer. own: [R, C] compute;
    // buffer: [N, C] compute. Returns [N, C] compute: `buffer`, or `own` if it has all rows.
    // Collective.
    View gather(const View& own, const View& buffer) const;
    // Sums a row-parallel layer's results, or the gradients of a column-parallel layer's input,
    // over the ranks, in place. parts: [N, C] compute. Returns own_rows(parts). Collective.
    View sum(const View& parts) const;
    // start_gather() and start_sum() start a gather() or a sum() and return at once. `x` has the
    // result after work.wait().
    struct Started {
        View x;  // [N, C] compute from start_gather(), [R, C] compute from start_sum()
        comm::Work work;
    };
    // own: [R, C] compute; buffer, parts: [N, C] compute.
    Started start_gather(const View& own, const View& buffer) const;
    Started start_sum(const View& parts) const;
    // Computes sum(parts), but writes the result to `own`. parts: [N, C] compute, own: [R, C]
    // compute. Without sequence parallelism, `own` must be `parts`. Collective.
    void sum(const View& parts, const View& own) const;
    // Sums x, [...] of any dtype that comm::Group adds, over all ranks, in place. Collective.
    void all_sum(const View& x) const;

  private:
    comm::Group* group_;
    int rank_;
    int size_;
    bool sequence_parallel_;
};

}  // namespace lm::model
