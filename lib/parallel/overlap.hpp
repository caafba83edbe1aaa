// SPDX-License-Identifier: Apache-2.0
// Overlaps data parallelism with compute: waits for the weights of a unit just before the unit
// reads them, and starts to reduce the gradients of the unit when its backward has completed them.
// spec/partition.hpp defines units.
#pragma once

#include <vector>

#include "model/chunk.hpp"
#include "parallel/data_parallel.hpp"

namespace lm::parallel {

class Overlap final : public model::ChunkHooks {
  public:
    // `data` must outlive this object.
    Overlap(const spec::ModelConfig& config, const spec::RankLayout& layout, DataParallel& data);

    void before_forward(i64 unit) override;
    void after_backward(i64 unit) override;

  private:
    DataParallel& data_;
    std::vector<i64> weights_end_;     // by unit: end of the unit's last weight
    std::vector<i64> gradients_from_;  // by unit: end of the last gradient of a lower unit
};

}  // namespace lm::parallel
