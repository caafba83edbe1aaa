// SPDX-License-Identifier: Apache-2.0
// Work that succeeds on all ranks of a group or fails on all of them.
#pragma once

#include <functional>
#include <string>

#include "comm/group.hpp"

namespace lm::parallel {

// Runs `body` on this rank. When it threw on any member, all of them throw
// JointError with the code of the first such rank, and its message, behind its number and host
// unless it is rank 0. Collective.
void together(comm::Group& group, const std::function<void()>& body);

// Runs `body`; when it throws, the operations of all members end with that error, before anything
// is unwound that they may be reading from.
void or_abort(comm::Group& group, const std::function<void()>& body);

// The root's text on all members. Collective.
std::string broadcast_text(comm::Group& group, const std::string& text, int root = 0);

// The text of the first member that has one, on all of them; empty when none has. Collective.
std::string first_text(comm::Group& group, const std::string& text);

}  // namespace lm::parallel
