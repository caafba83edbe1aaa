// SPDX-License-Identifier: Apache-2.0
// The machine that a process runs on: its host name and the vector instructions of its processor.
#pragma once

#include <string>

namespace lm {

// Returns the name of this host (gethostname), or "unknown" when the system has no name. The
// environment variable LM_HOST replaces the name, so that tests can run several hosts on one
// machine.
std::string host_name();
// Stores the name of the device that this process computes on, such as "cuda:3 (NVIDIA H100 80GB
// HBM3)". own_place() uses it. Thread-safe.
void set_own_device(const std::string& device);
// Returns a text that states where an error of `rank`, a rank of this process, happened: "rank 3 on
// n1", or, if a device is set, "rank 3 on n1, cuda:3 (NVIDIA H100 80GB HBM3)".
std::string own_place(int rank);
// Returns the name of the user of this process, or the number of a user without a name.
std::string own_user();

enum class Vectors { none, avx2, avx512, amx };

// Returns whether kernels may use `vectors`; callers also check that the processor has them. The
// environment variable LM_PROCESSOR (`avx512`, `avx2` or `portable`) limits the choice. With this
// variable, tests run the code for other processors, and users compare results when they suspect a
// kernel. Throws Error(usage) when LM_PROCESSOR has another value.
bool may_use(Vectors vectors);

}  // namespace lm
