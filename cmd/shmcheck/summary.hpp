// SPDX-License-Identifier: Apache-2.0
// lm-shmcheck --summary: the JSON lines of many hosts from standard input, as they arrive.
#pragma once

#include <string>

namespace lm::shmcheck {

// Prints the summary whenever the input pauses for a second and the summary has changed, and at its
// end. `hosts_expected`: a number of hosts, or a list such as "n[001-004]"; empty: not known.
// `fail_on_dead`: dead segments are a failure. Returns the exit code. Throws Error.
int summarize(const std::string& hosts_expected, bool fail_on_dead);

}  // namespace lm::shmcheck
