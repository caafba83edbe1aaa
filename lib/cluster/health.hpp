// SPDX-License-Identifier: Apache-2.0
// Compares the use of a file system with thresholds.
#pragma once

#include <string>
#include <string_view>

#include "cluster/shared_memory.hpp"

namespace lm::cluster {

enum class Health { ok, warning, critical };
std::string_view name_of(Health health);

// The thresholds: shares of bytes or inodes in use, from 0 to 1.
struct HealthThresholds {
    double warning = 0;
    double critical = 0;
};

struct HealthVerdict {
    Health health = Health::ok;
    std::string reason;  // "97.3 % of its bytes are used (critical from 95 %)"; empty: ok
};

// Compares the used bytes and the used inodes with `thresholds`, and returns the worse of both
// verdicts. A share that equals a threshold counts as above the threshold.
HealthVerdict judge_use(const io::FilesystemUse& use, const HealthThresholds& thresholds);

}  // namespace lm::cluster
