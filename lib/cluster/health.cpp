// SPDX-License-Identifier: Apache-2.0
#include "cluster/health.hpp"

#include <fmt/format.h>

namespace lm::cluster {

HealthVerdict judge_use(const io::FilesystemUse& use, const HealthThresholds& thresholds) {
    HealthVerdict verdict;
    const auto compare = [&](double share, const char* what) {
        const bool critical = share >= thresholds.critical;
        if (!critical && share < thresholds.warning) return;
        const Health health = critical ? Health::critical : Health::warning;
        if (health <= verdict.health) return;
        verdict = {health,
                   fmt::format("{:.1f} % of its {} are used ({} from {:g} %)", 100 * share, what,
                               name_in(healths, health),
                               100 * (critical ? thresholds.critical : thresholds.warning))};
    };
    compare(use.use(), "bytes");
    compare(use.inode_use(), "inodes");
    return verdict;
}

}  // namespace lm::cluster
