// SPDX-License-Identifier: Apache-2.0
// lm-shmcheck --summary: the JSON lines of many hosts from standard input, as they arrive.
#pragma once

#include <optional>
#include <string>

namespace lm::shmcheck {

// Prints the summary at the end of the input, and whenever the input pauses for a second and the
// summary has changed. `hosts_expected` is a number of hosts, or a list such as "n[001-004]";
// nullopt when it is not known. With `fail_on_dead`, dead segments are a failure. Returns the exit
// code. Throws Error for invalid input.
int summarize(const std::optional<std::string>& hosts_expected, bool fail_on_dead);

}  // namespace lm::shmcheck
