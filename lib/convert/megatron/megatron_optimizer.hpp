// SPDX-License-Identifier: Apache-2.0
// The optimizer state that Megatron-LM saves in one piece for each rank.
#pragma once

#include <string>
#include <vector>

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// A parameter of one rank. Parameters are listed in the order of the rank's state_dict.
struct MegatronParameter {
    std::string own;   // name in lm-utils; empty: the last stage's copy of tied word embeddings
    std::string name;  // name in the file
    std::vector<i64> shape;
    bool decays = false;  // true for a matrix: it is in a parameter group with weight decay
    DType dtype = DType::fp32;
};

// Adds to `import` the masters and moments of a rank, the optimizer's step and the loss scale. Adds
// nothing when `file` has no optimizer state. Adds only the loss scale when the distributed
// optimizer has stored the other state in distrib_optim.pt. Throws Error(failure) when the state
// does not belong to these parameters.
void add_megatron_optimizer(MegatronImport& import, const TorchFile& file,
                            const std::vector<MegatronParameter>& parameters, i64 tp_rank, i64 tp);

}  // namespace lm::convert
