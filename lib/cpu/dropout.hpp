// SPDX-License-Identifier: Apache-2.0
// Dropout of row operations. device/dropout.hpp defines the mask.
#pragma once

#include "device/dropout.hpp"

namespace lm::cpu {

using device::DropoutMask;

// Maps each row of a row operation to its sample and to its position in the sample.
class SampleRows {
  public:
    SampleRows(const device::Dropout& dropout, i64 rows)
        : samples_(dropout.sample_ids.as<i64>()),
          first_row_(dropout.first_row),
          sample_rows_(dropout.sample_rows > 0 ? dropout.sample_rows
                                               : rows / dropout.sample_ids[0]) {}
    i64 sample(i64 row) const { return samples_[(first_row_ + row) / sample_rows_]; }
    i64 row_of_sample(i64 row) const { return (first_row_ + row) % sample_rows_; }

  private:
    const i64* samples_;
    i64 first_row_;
    i64 sample_rows_;
};

}  // namespace lm::cpu
