// SPDX-License-Identifier: Apache-2.0
// Reports of the ranks at the end of a save. The ranks send their reports through a tree of groups
// to rank 0, which broadcasts the answer. A report has a result or an error, and no rank receives
// messages of all other ranks.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "comm/group.hpp"

namespace lm::train {

struct SaveFailure {
    Exit code = Exit::failure;
    int rank = 0;      // global rank
    std::string text;  // error message; names rank, host and device if the rank is not 0
};

// A result of a save, or a failure. If several ranks fail, the failure of the lowest rank is kept.
struct SaveReport {
    std::string text = {};
    std::optional<SaveFailure> failure = {};

    // Stores `other`, unless the report has a failure of a lower rank.
    void fail(SaveFailure other);
    void fail(const std::exception_ptr& error, int rank);
    // Calls `body`, unless there is a failure. Stores an exception of `body` as the failure of
    // `rank`.
    void add(int rank, const std::function<void()>& body);
};

// On member 0 of `group`, passes the texts of the other members to `accept`, by rank, and adds
// their failures to its own report. Collective.
void gather_reports(comm::Group& group, SaveReport& own,
                    const std::function<void(int member, const std::string& text)>& accept);
// Appends the texts of the other members, by rank, to the text of member 0, and adds their failures
// to the report of member 0. Takes ceil(log2(n)) rounds. Collective.
void join_reports(comm::Group& group, SaveReport& own);
// Throws the failure of rank 0's report on all ranks as a JointError. Collective.
void conclude(comm::Group& world, const SaveReport& own);

}  // namespace lm::train
