// SPDX-License-Identifier: Apache-2.0
#include "parallel/data_parallel.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace lm::parallel {

using comm::Reduction;
using device::View;

namespace {

// Returns the elements `range` of `flat`, [n] of any dtype.
View rows(const View& flat, const Range& range) {
    return flat.rows(range.begin, range.end);
}

}  // namespace

DataParallel::DataParallel(comm::Group& group, int zero_stage,
                           const spec::DataParallelConfig& config, View weights, View gradients,
                           i64 n_elements, i64 shared_end)
    : group_(group),
      zero_stage_(zero_stage),
      weights_(weights),
      gradients_(gradients),
      config_(config),
      buckets_(divide_into_buckets(
          n_elements, group.size(),
          config.bucket_elements.value_or(default_bucket_elements(group.size())), shared_end)),
      work_(buckets_.size()),
      not_reduced_(buckets_.size()),
      gathered_(buckets_.size()) {
    const i64 n = buckets_.back().end;
    LM_CHECK(weights.numel() == n && gradients.numel() == n,
             "expected flat buffers of {} elements, got {} and {}", n, weights.numel(),
             gradients.numel());
    for (const Range& bucket : buckets_) {
        owned_.push_back(part_of(bucket, group.size(), group.rank()));
    }
    updated_ = sharded() ? owned_ : std::vector<Range>{{0, n}};
}

void DataParallel::warm_up() {
    const auto largest = std::ranges::max_element(buckets_, {}, &Range::size);
    const Range own = part_of(*largest, group_.size(), group_.rank());
    const View whole = rows(gradients_, *largest);
    if (!sharded()) return group_.warm_up_all_reduce(whole, Reduction::sum);
    group_.warm_up_reduce_scatter(whole, rows(gradients_, own), Reduction::sum);
    group_.warm_up_all_gather(rows(weights_, own), rows(weights_, *largest));
}

// Starts to reduce a bucket. With ZeRO-1 the reduction is in place: the sum of this rank's part
// replaces that part of the gradients, and the other parts of the bucket are undefined afterwards.
void DataParallel::start_reduce(size_t bucket) {
    const View whole = rows(gradients_, buckets_[bucket]);
    if (sharded()) {
        const View part = rows(gradients_, owned_[bucket]);
        work_[bucket] = group_.start_reduce_scatter(whole, part, Reduction::sum);
    } else {
        work_[bucket] = group_.start_all_reduce(whole, Reduction::sum);
    }
}

void DataParallel::gradients_final(i64 from) {
    if (!config_.overlap_grad_reduce) return;
    // All ranks start the buckets in the same order, from the last to the first, because the
    // collectives of a group must match. The order is the same because backward completes the units
    // in the same order on all ranks.
    while (not_reduced_ > 0 && buckets_[not_reduced_ - 1].begin >= from) {
        start_reduce(--not_reduced_);
    }
    poll();
}

void DataParallel::finish_reduce() {
    while (not_reduced_ > 0) start_reduce(--not_reduced_);
    for (comm::Work& work : work_) work.wait();
    not_reduced_ = buckets_.size();
}

void DataParallel::start_gather() {
    if (!sharded()) return;  // every rank has updated all weights
    start_gathers();
    if (!config_.overlap_param_gather) finish_gather();
}

void DataParallel::gather_owned() {
    if (group_.size() == 1) return;
    start_gathers();
    finish_gather();
}

// Starts all gathers, in the order in which forward waits for them.
void DataParallel::start_gathers() {
    for (size_t i = 0; i < buckets_.size(); ++i) {
        work_[i] = group_.start_all_gather(rows(weights_, owned_[i]), rows(weights_, buckets_[i]));
    }
    gathered_ = 0;
}

void DataParallel::wait_weights(i64 end) {
    while (gathered_ < buckets_.size() && buckets_[gathered_].begin < end) {
        work_[gathered_++].wait();
    }
}

void DataParallel::poll() {
    for (comm::Work& work : work_) (void)work.done();
}

}  // namespace lm::parallel
