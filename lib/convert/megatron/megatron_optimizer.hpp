// SPDX-License-Identifier: Apache-2.0
// The optimizer state that Megatron-LM saves whole for each rank.
#pragma once

#include <string>
#include <vector>

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// A parameter of one rank. Parameters are listed in the order of the rank's state_dict.
struct MegatronParameter {
    std::string own;   // name in lm-utils; empty: the last stage's copy of tied word embeddings
    std::string name;  // in the file
    std::vector<i64> shape;
    bool decays = false;  // true for matrices: they are in the parameter groups with weight decay
    DType dtype = DType::fp32;
};

// Adds to `import` the masters and moments of a rank, the optimizer's step and the loss scale. Adds
// nothing when `file` has no optimizer state, or the state of the distributed optimizer. Throws
// Error(failure) when the state does not belong to these parameters.
void add_megatron_optimizer(MegatronImport& import, const TorchFile& file,
                            const std::vector<MegatronParameter>& parameters, i64 tp_rank, i64 tp);

}  // namespace lm::convert
