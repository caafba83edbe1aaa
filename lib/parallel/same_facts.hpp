// SPDX-License-Identifier: Apache-2.0
// Compares facts that must be the same on all ranks, such as flags. Ranks with different flags
// would exchange data of different shapes, or train together on different problems.
#pragma once

#include <string>
#include <vector>

#include "comm/group.hpp"

namespace lm::parallel {

struct Fact {
    std::string name;        // "--lr"
    std::string value;       // compared
    std::string shown = {};  // for messages; empty: `value`
};

struct FactGroup {
    std::string remedy;  // what to do when a fact differs
    std::vector<Fact> facts;
};

// Throws JointError(usage) when a fact differs between ranks: it names each fact of the first group
// with a difference, a rank with its host and its value, and the value of other ranks. All ranks
// have the same number of groups. If no fact differs, the ranks exchange 16 bytes for each group in
// one reduction. Collective.
void require_same(comm::Group& world, const std::vector<FactGroup>& groups);

}  // namespace lm::parallel
