// SPDX-License-Identifier: Apache-2.0
// Skips test cases that this machine cannot run.
#pragma once

#include <string>

namespace lm::test {

// Prints that the running case, or a part of it, is skipped, and why. The caller returns.
void skip(const std::string& why);

// Returns the last reason when every case was skipped without any assertion, else an empty string.
std::string why_all_skipped();

}  // namespace lm::test
