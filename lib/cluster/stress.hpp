// SPDX-License-Identifier: Apache-2.0
// Finds out whether so much shared memory can really be had: allocates, touches and frees it in a
// child process, so that a bus error or the out-of-memory killer hits the child only, and its death
// frees the memory. More than there is room for is not tried at all: shared memory outlives the
// out-of-memory killer's victims, which goes on through the host until nothing is left.
#pragma once

#include <string>

#include "base/types.hpp"

namespace lm::cluster {

struct StressResult {
    bool passed = false;
    i64 allocated = 0;  // bytes that the file system granted
    i64 touched = 0;    // bytes that were written and read back
    double seconds = 0;
    std::string reason;  // why it did not pass
};

// What is left to the others on the host: MemAvailable is an estimate, and they go on allocating.
constexpr i64 stress_margin(i64 room) {
    return room / 16 > (i64{256} << 20) ? room / 16 : i64{256} << 20;
}

// A file without a name in `directory` is used; nothing stays behind, whatever happens.
StressResult stress_shared_memory(const std::string& directory, i64 bytes);

}  // namespace lm::cluster
