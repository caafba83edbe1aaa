// SPDX-License-Identifier: Apache-2.0
// The settings of data parallelism: the size of a transfer, and which transfers overlap with
// compute.
#pragma once

#include <optional>

#include "base/types.hpp"

namespace lm::spec {

struct DataParallelConfig {
    // --ddp-bucket-size. nullopt: the default for the number of ranks (parallel/buckets.hpp).
    std::optional<i64> bucket_elements;
    bool overlap_grad_reduce = false;
    bool overlap_param_gather = false;

    bool overlaps() const { return overlap_grad_reduce || overlap_param_gather; }
};

}  // namespace lm::spec
