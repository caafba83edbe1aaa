// SPDX-License-Identifier: Apache-2.0
// Evaluation: computes the mean loss over the validation sets every --eval-interval iterations, and
// over the test sets at the end of the training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "data/sampling/datasets.hpp"
#include "data/sampling/loader.hpp"
#include "train/run_config.hpp"
#include "train/trainer.hpp"
#include "train/training_log.hpp"

namespace lm::train {

class Evaluation {
  public:
    // All arguments outlive this object.
    Evaluation(const RunConfig& config, const data::DataSets& data, comm::Group& world,
               Trainer& trainer, TrainingLog& log)
        : config_(config), data_(data), world_(world), trainer_(trainer), log_(log) {}

    // Log the loss of each validation or test set. Return false, on all ranks, when a signal to any
    // rank stopped the evaluation; the remaining sets are skipped then. Collective.
    bool validate(const optim::Counters& done);
    bool test(const optim::Counters& done);

  private:
    bool evaluate(const std::vector<data::NamedSource>& sets, i64 first_sample,
                  const optim::Counters& done, const std::string& when);
    std::optional<double> mean_loss(BatchSource& batches);
    i64 first_validation_sample(const optim::Counters& done) const;

    const RunConfig& config_;
    const data::DataSets& data_;
    comm::Group& world_;
    Trainer& trainer_;
    TrainingLog& log_;
};

}  // namespace lm::train
