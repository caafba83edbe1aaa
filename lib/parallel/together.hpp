// SPDX-License-Identifier: Apache-2.0
// Runs work that succeeds on all ranks of a group or fails on all of them, and sends texts of one
// rank to the others.
#pragma once

#include <functional>
#include <string>

#include "comm/group.hpp"

namespace lm::parallel {

// Runs `body` on this rank. When it throws on any member, all members throw a JointError with the
// exit code and the message of the first such rank. The message begins with that rank, its host and
// its device. If rank 0 finds a wrong flag, the message names no rank. Collective.
void together(comm::Group& group, const std::function<void()>& body);

// Returns the root's text on all members. Collective.
std::string broadcast_text(comm::Group& group, const std::string& text, int root = 0);

// Returns, on all members, the text of the first member whose text is not empty. Collective.
std::string first_text(comm::Group& group, const std::string& text);

}  // namespace lm::parallel
