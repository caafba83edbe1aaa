// SPDX-License-Identifier: Apache-2.0
// The flags of the device that a training computes on.
#pragma once

#include <optional>
#include <string>

#include "config/field.hpp"
#include "spec/numerics.hpp"

namespace lm::config {

struct DeviceFlags {
    std::string choice = "auto";
    std::string attention_backend = "auto";
    bool deterministic_mode = false;
    bool allow_tf32 = false;
    std::string autotune;  // directory, or "off"; empty: autotune in the --save directory
    std::optional<i64> tensor_comm_sms;  // nullopt: cost::tensor_comm_sms()
    std::optional<i64> threads;          // CPU threads of each rank

    spec::GpuAttention attention() const;
};

const Fields<DeviceFlags>& device_fields();

}  // namespace lm::config
