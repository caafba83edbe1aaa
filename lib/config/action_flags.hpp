// SPDX-License-Identifier: Apache-2.0
// The flags of actions that the program does instead of a training, or in addition to it.
#pragma once

#include <optional>
#include <string>

#include "config/field.hpp"

namespace lm::config {

struct ActionFlags {
    bool dry_run = false;
    std::optional<i64> world_size;
    std::string show_samples;  // "A-B"
    bool print_config = false;
    bool benchmark = false;
};

const Fields<ActionFlags>& action_fields();

}  // namespace lm::config
