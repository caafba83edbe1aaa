// SPDX-License-Identifier: Apache-2.0
// The error of a mapped file that became shorter or cannot be read any more.
#pragma once

#include <string>

namespace lm::cli {

// Installs a handler of SIGBUS. When a read of a file that io::MappedFile has mapped fails, the
// handler prints "PROGRAM: FILE: problem: remedy" and ends the process with Exit::failure: the
// thread cannot continue without the bytes. Temporary files remain, as after kill -9. For all other
// addresses, the default action follows. `program` may contain the place of a rank.
void report_bus_errors(const std::string& program);

}  // namespace lm::cli
