// SPDX-License-Identifier: Apache-2.0
// The communication of tensor and sequence parallelism: what Megatron calls f and g. Between the
// products of a layer each rank holds the whole residual stream [N, C], or with sequence
// parallelism [N / ranks, C] of it (Shoeybi et al., 2019, section 3; Korthikanti et al., 2022,
// section 4.2.2). With one rank nothing is moved and every function returns its argument.
#pragma once

#include "comm/group.hpp"

namespace lm::model {

using device::View;

class TensorParallel {
  public:
    // `group`: none for one rank.
    TensorParallel(comm::Group* group, bool sequence_parallel)
        : group_(group),
          rank_(group != nullptr ? group->rank() : 0),
          size_(group != nullptr ? group->size() : 1),
          cut_rows_(sequence_parallel && size_ > 1) {}

    comm::Group& group() const { return *group_; }  // only where there are several() ranks
    int rank() const { return rank_; }
    int size() const { return size_; }
    bool several() const { return size_ > 1; }
    bool first() const { return rank_ == 0; }
    bool cuts_rows() const { return cut_rows_; }

    // This rank's rows of a view of all rows.
    View own_rows(const View& all) const;
    i64 first_row(i64 n_rows) const { return cut_rows_ ? rank_ * n_rows : 0; }

    // The input of a column-parallel product: `own` rows of all ranks, in `buffer`.
    View gather(const View& own, const View& buffer) const;
    // From every rank's part of a sum over all rows, in place, to own_rows() of the sum: after a
    // row-parallel product, and after the gradient of a column-parallel one's input.
    View sum(const View& parts) const;
    // The same, begun: usable after wait(), and `x` then lies where the plain form says.
    struct Begun {
        View x;
        comm::Work work;
    };
    Begun start_gather(const View& own, const View& buffer) const;
    Begun start_sum(const View& parts) const;
    // The same into `own`, which lies elsewhere (or is `parts` itself when rows are not cut).
    void sum(const View& parts, const View& own) const;
    // In place, over all ranks.
    void all_sum(const View& x) const;

  private:
    comm::Group* group_;
    int rank_;
    int size_;
    bool cut_rows_;
};

}  // namespace lm::model
