// SPDX-License-Identifier: Apache-2.0
// The machine that a process runs on: its host name and the vector instructions of its processor.
#pragma once

#include <string>

namespace lm {

// Returns the name of this host (gethostname), or "unknown" when the system gives none.
std::string host_name();

enum class Vectors { none, avx2, avx512 };

// Returns whether kernels may use `vectors`; callers also check that the processor has them. The
// environment variable LM_PROCESSOR (`avx2` or `portable`) limits the choice: the tests run the
// code for other processors with it, and results are compared with it when one is suspected. Any
// other value is Error(usage).
bool may_use(Vectors vectors);

}  // namespace lm
