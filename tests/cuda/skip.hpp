// SPDX-License-Identifier: Apache-2.0
// Cases that this machine cannot run.
#pragma once

#include <string>

namespace lm::test {

// Says that what the running case is about is left out, and why.
void leave_out(const std::string& why);

// Why nothing was run: the last reason, if every case that ended was left out from its beginning to
// its end; else empty.
std::string why_nothing_ran();

}  // namespace lm::test
