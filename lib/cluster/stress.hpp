// SPDX-License-Identifier: Apache-2.0
// Tests whether an amount of shared memory is available. A child process allocates and touches the
// memory, so a bus error or the out-of-memory killer ends only the child. The end of the child
// frees the memory.
//
// An amount above the free memory minus stress_margin() is refused without a test. In a test of
// such an amount, the out-of-memory killer might kill many processes of the host, because killing a
// process does not free the shared memory of others.
#pragma once

#include <string>

#include "base/types.hpp"

namespace lm::cluster {

struct StressResult {
    bool passed = false;
    i64 allocated = 0;  // bytes that the file system granted
    i64 touched = 0;    // bytes that were written and read back
    double seconds = 0;
    std::string reason;  // empty when the test passed
};

// Returns the number of bytes that a test leaves free when `room` bytes are free. The margin is
// needed because MemAvailable is an estimate, and because other processes continue to allocate
// memory.
constexpr i64 stress_margin(i64 room) {
    return room / 16 > (i64{256} << 20) ? room / 16 : i64{256} << 20;
}

// Tests `bytes` of the tmpfs at `directory`, in a file without a name (O_TMPFILE), so that no file
// remains even after a killed test. Throws Error(failure) when the directory cannot be read or the
// test cannot start.
StressResult stress_shared_memory(const std::string& directory, i64 bytes);

}  // namespace lm::cluster
