// SPDX-License-Identifier: Apache-2.0
// Explains a hang from the flight-recorder dumps of the ranks: which rank waits for which other
// rank, and which rank diverged first.
#pragma once

#include <string>
#include <vector>

#include "comm/flight_dump.hpp"

namespace lm::comm {

struct HangStory {
    std::vector<int> diverged;  // ranks that others wait for and that do not wait themselves
    std::string text;           // lines, each with a newline
};

// Explains a hang from `dumps`: dumps of one run, at most one of each rank. Treats a rank without a
// dump like a rank that does not answer. Throws Error(usage) when `dumps` is empty, when the dumps
// are of several runs, or when a rank has several dumps.
HangStory explain_hang(const std::vector<RankDump>& dumps);

}  // namespace lm::comm
