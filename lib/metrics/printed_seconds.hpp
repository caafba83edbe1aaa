// SPDX-License-Identifier: Apache-2.0
// Parses durations that human_duration() (base/units.hpp) has printed.
#pragma once

#include <optional>
#include <string_view>

namespace lm::metrics {

// Returns the seconds of the duration with which `text` starts: "1 h 02 min", "3 min 05 s", "12.3
// s"; nullopt when `text` does not start with a duration.
std::optional<double> printed_seconds(std::string_view text);

}  // namespace lm::metrics
