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
#include "train/config/run_config.hpp"
#include "train/log/training_log.hpp"
#include "train/loop/stops.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {

class Evaluation {
  public:
    // `stops` outlives this object.
    Evaluation(const LoopParts& parts, Stops& stops)
        : config_(parts.config),
          data_(parts.data),
          world_(parts.world),
          trainer_(parts.trainer),
          log_(parts.log),
          stops_(stops) {}

    // Sets the expected time of a micro-batch, equal on all ranks; 0: unknown. The evaluation uses
    // this time until it has measured a batch.
    void expect_micro_batch_s(double s) { micro_batch_s_ = s; }
    // Log the loss of each validation or test set. Return true when all sets were evaluated. When
    // any rank has a reason to stop, the remaining sets are skipped, and the result is false on all
    // ranks. Collective.
    bool validate(const spec::Counters& done);
    bool test(const spec::Counters& done);
    // Adds the time of a validation, `elapsed_s`. Rank 0 prints a note, once, when `run_s`, the
    // time of the run so far, is at least 60 s and validations have taken at least 5 % of it.
    void note_share(double elapsed_s, double run_s);

  private:
    bool evaluate(const std::vector<data::NamedSource>& sets, i64 first_sample,
                  const spec::Counters& done, const std::string& when);
    std::optional<double> mean_loss(BatchSource& batches, const spec::Counters& done);
    bool stop_is_requested(const spec::Counters& done);
    i64 first_sample(i64 earlier) const;  // `earlier`: the number of earlier validations

    const RunConfig& config_;
    const data::DataSets& data_;
    comm::Group& world_;
    Trainer& trainer_;
    TrainingLog& log_;
    Stops& stops_;
    double batch_s_ = 0;  // time of the last global batch, the longest of all ranks; 0: unknown
    double micro_batch_s_ = 0;
    double sum_s_ = 0;  // time of all validations
    bool noted_ = false;
};

}  // namespace lm::train
