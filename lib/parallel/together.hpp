// SPDX-License-Identifier: Apache-2.0
// Runs work that succeeds on all ranks of a group or fails on all of them, and sends texts of one
// rank to the others.
#pragma once

#include <functional>
#include <string>

#include "comm/group.hpp"

namespace lm::parallel {

// Runs `body` on this rank. When it throws on any member, all members throw a JointError with the
// exit code and the message of the lowest such rank. The message begins with that rank, its host
// and its device, except when the lowest rank is rank 0 and its error is Error(usage). In a group
// of size 1, an exception of `body` is passed on unchanged. Collective.
void together(comm::Group& group, const std::function<void()>& body);

// Returns the root's text on all members. Collective.
std::string broadcast_text(comm::Group& group, const std::string& text, int root = 0);

// Returns, on all members, the text of the lowest rank whose text is not empty, or an empty text.
// Collective.
std::string first_text(comm::Group& group, const std::string& text);

}  // namespace lm::parallel
