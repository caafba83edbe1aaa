// SPDX-License-Identifier: Apache-2.0
// Memory faults: of a kernel they end its launch; of host code that touches device memory they end
// the process, with a line that says so.
#pragma once

#include <functional>

namespace emulator {

// False when body touched memory that is not there; it was left in the middle then.
bool catching_faults(const std::function<void()>& body);
const void* fault_address();  // of the last one caught on this thread

// Says what lies at an address, for the message; set by memory.cpp.
using Describe = const char* (*)(const void* address);
void describe_faults_by(Describe describe);

}  // namespace emulator
