// SPDX-License-Identifier: Apache-2.0
// The tensor table's names for norms as those of the operations.
#pragma once

#include "device/ops.hpp"
#include "spec/model.hpp"

namespace lm::model {

inline device::Norm norm_of(spec::Normalization norm) {
    return norm == spec::Normalization::rms_norm ? device::Norm::rms_norm
                                                 : device::Norm::layer_norm;
}

}  // namespace lm::model
