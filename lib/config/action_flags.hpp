// SPDX-License-Identifier: Apache-2.0
// The flags that select an action other than an ordinary training: a dry run, printing samples or
// the configuration, a benchmark.
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
