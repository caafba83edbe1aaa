// SPDX-License-Identifier: Apache-2.0
// Ties the model's walk over its units to data parallelism: weights are waited for just before a
// unit reads them, gradients leave as soon as a unit has completed them.
#pragma once

#include <vector>

#include "model/chunk.hpp"
#include "parallel/data_parallel.hpp"

namespace lm::parallel {

class Overlap final : public model::ChunkHooks {
  public:
    // `data` outlives this.
    Overlap(const spec::ModelConfig& config, const spec::RankLayout& layout, DataParallel& data);

    void before_forward(i64 unit) override;
    void after_backward(i64 unit) override;

  private:
    DataParallel& data_;
    std::vector<i64> weights_end_;     // by unit: behind the last weight that it reads
    std::vector<i64> gradients_from_;  // by unit: where those begin that only later ones complete
};

}  // namespace lm::parallel
