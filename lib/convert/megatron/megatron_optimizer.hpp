// SPDX-License-Identifier: Apache-2.0
// The optimizer state that Megatron-LM saves whole for each rank.
#pragma once

#include <string>
#include <vector>

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// A parameter of one rank, in the order of the model's modules, which is that of its state_dict.
struct MegatronParameter {
    std::string own;   // name in lm-utils; empty: a copy of a tied table
    std::string name;  // in the file
    std::vector<i64> shape;
    bool decays = false;  // matrices, which are in the parameter groups with weight decay
    DType dtype = DType::fp32;
};

// Adds masters and moments of a rank, and step and loss scale. A checkpoint without optimizer
// state, or with that of the distributed optimizer, adds nothing. Throws Error(failure) when the
// state does not belong to these parameters.
void add_megatron_optimizer(MegatronImport& import, const TorchFile& file,
                            const std::vector<MegatronParameter>& parameters, i64 tp_rank, i64 tp);

}  // namespace lm::convert
