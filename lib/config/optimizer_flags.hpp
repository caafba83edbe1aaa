// SPDX-License-Identifier: Apache-2.0
// The flags of the optimizer and of the number formats, with Megatron's names and defaults.
#pragma once

#include "config/field.hpp"
#include "config/megatron_flags.hpp"
#include "spec/numerics.hpp"
#include "spec/optimizer_config.hpp"

namespace lm::config {

struct PrecisionFlags {
    bool fp16 = false;
    bool bf16 = false;
    bool fp32_residual = false;  // --fp32-residual-connection
};

const Fields<spec::AdamWConfig>& optimizer_fields();
const Fields<PrecisionFlags>& precision_fields();
const Fields<spec::LossScaleConfig>& loss_scale_fields();

// Returns the precision and the optimizer that the flags choose. Throws Error(usage) for flags that
// contradict each other.
spec::Precision resolve_precision(const PrecisionFlags& flags, const MegatronChoices& choices);

}  // namespace lm::config
