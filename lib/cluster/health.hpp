// SPDX-License-Identifier: Apache-2.0
// Compares the use of a file system with thresholds.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/named.hpp"
#include "cluster/shared_memory.hpp"

namespace lm::cluster {

enum class Health { ok, warning, critical };
inline constexpr std::array healths{Named{Health::ok, "ok"}, Named{Health::warning, "warning"},
                                    Named{Health::critical, "critical"}};

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
