// SPDX-License-Identifier: Apache-2.0
// Memory faults. A fault in a kernel ends its launch. A fault of host code that accesses device
// memory ends the process with a message.
#pragma once

#include <functional>

namespace emulator {

// Calls body. Returns false when it accessed unmapped memory; body was then aborted.
bool catching_faults(const std::function<void()>& body);
const void* fault_address();  // address of the last fault caught on this thread

// Describes the memory at an address, for the message; set by memory.cpp.
using Describe = const char* (*)(const void* address);
void describe_faults_by(Describe describe);

}  // namespace emulator
