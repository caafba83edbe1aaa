// SPDX-License-Identifier: Apache-2.0
// The values that a run computes from its flags.
#pragma once

#include <string>
#include <vector>

#include "config/skip_ranges.hpp"
#include "spec/numerics.hpp"
#include "spec/parallel_config.hpp"
#include "spec/schedule.hpp"

namespace lm::config {

// The values for Field::json. The references must outlive the object.
struct Resolved {
    const spec::ModelConfig& model;
    const spec::ParallelConfig& parallel;
    const spec::Schedule& schedule;
    const std::vector<IterationRange>& skipped;  // iterations that are not trained on
    i64 micro_batch = 1;
    i64 validation_samples = 0;  // that one validation reads from each set
    DType weights = DType::fp32;
    u64 seed = 0;
    bool cuda = false;  // the device is a GPU
    bool deterministic = false;
    spec::GpuAttention attention = spec::GpuAttention::flash;
    bool allow_tf32 = false;
    std::string autotune;  // directory of measured GEMM algorithms; empty: no measuring
    i64 tensor_comm_sms = 0;
    int n_threads = 1;
};

}  // namespace lm::config
