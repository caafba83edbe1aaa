// SPDX-License-Identifier: Apache-2.0
// The machine that a process runs on: its host name and the vector instructions of its processor.
#pragma once

#include <string>

namespace lm {

// Returns the name of this host (gethostname), or "unknown" when the system gives none.
std::string host_name();
// Returns the name of the user of this process, or its number when it has no name.
std::string own_user();

enum class Vectors { none, avx2, avx512 };

// Returns whether kernels may use `vectors`; callers also check that the processor has them. The
// environment variable LM_PROCESSOR (`avx2` or `portable`) limits the choice. Tests use it to run
// the code for other processors, and users to compare results when they suspect a kernel. Throws
// Error(usage) when LM_PROCESSOR has another value.
bool may_use(Vectors vectors);

}  // namespace lm
