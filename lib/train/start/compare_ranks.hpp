// SPDX-License-Identifier: Apache-2.0
// Compares the ranks at the start of a run: program, environment, flags, resolved configuration and
// data files. (All ranks check the files of a checkpoint against the manifest of rank 0.) Nodes get
// different ones from copies of scripts and data, stale mounts and images of their own. Ranks that
// differ would hang, or train together without a message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "comm/group.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

// How the values of a flag are compared, when they may differ between ranks.
enum class MayDiffer {
    where_given,  // all ranks or none give the flag; the values may differ
    anyhow
};
struct OwnOfRank {
    std::string_view flag;
    MayDiffer what = MayDiffer::anyhow;
    std::string_view reason;
};
// The flags whose values may differ.
const std::vector<OwnOfRank>& flags_of_ranks();

// Each function throws JointError(usage) with the values that differ, a rank and its host. Each is
// collective.
//
// Compares program, environment and flags: the result of cli::Options::settings() on each rank.
// Call it before any other collective whose shape depends on a flag.
void require_same_flags(comm::Group& world, const std::vector<cli::Options::Setting>& flags);
// Compares what the flags and the files that they name give, and the data files, of which each rank
// reads a few pages.
void require_same_configuration(comm::Group& world, const RunConfig& config);

}  // namespace lm::train
