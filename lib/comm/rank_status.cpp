// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_status.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/operation.hpp"

namespace lm::comm {
namespace {

std::string last_state(const RankStatus& status) {
    return status.where.empty() ? "" : ", its recorder shows " + status.where;
}

}  // namespace

std::string timeout_text(const std::string& operation, i64 number, std::vector<RankStatus> statuses,
                         int n_ranks, double waited_s) {
    constexpr size_t max_described = 4;
    // Ranks that do not answer are listed first, because the other ranks may wait for them.
    std::stable_partition(statuses.begin(), statuses.end(),
                          [](const RankStatus& s) { return !s.answered; });
    std::vector<int> missing;
    std::string details;
    for (const RankStatus& s : statuses) {
        if (s.answered && number >= 0 && s.n_started > number) continue;
        missing.push_back(s.rank);
        if (missing.size() > max_described) continue;
        details +=
            fmt::format("; rank {} on {}{} {}", s.rank, s.host.empty() ? "an unknown host" : s.host,
                        s.device.empty() ? "" : " (" + s.device + ")",
                        !s.answered       ? "does not answer" + last_state(s)
                        : s.where.empty() ? "is alive, its phase is not known"
                                          : "is in " + s.where);
    }
    std::ranges::sort(missing);
    const std::string which = number >= 0 ? fmt::format(", operation {}", number) : "";
    const std::string who = missing.empty() ? "although all ranks have started it"
                                            : "waiting for " + ranks_text(missing, n_ranks);
    return fmt::format("{}{}: timed out after {:.0f} s {}{}", operation, which, waited_s, who,
                       details);
}

double time_until_asking(double timeout_s, int member) {
    return timeout_s + std::min(member * 0.05, 10.0);
}

}  // namespace lm::comm
