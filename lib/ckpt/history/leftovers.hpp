// SPDX-License-Identifier: Apache-2.0
// Left-overs in a directory of steps: temporary files and directories of programs that save, copy
// or remove steps. They remain when such a program is killed, and also exist while it runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

struct Leftover {
    std::string name;
    i64 bytes = 0;
    double age_s = 0;     // seconds since the last change of any file in it
    bool in_use = false;  // a running copy holds the lock in this directory
};

// Returns whether a program of this toolkit gives a temporary file or directory in a directory of
// steps this name: the marks of steps.hpp after the name of a step, io::temporary_name() of a step
// or of a file that the toolkit writes there, or the token of a start.
bool is_leftover(std::string_view name);

// Returns the left-overs of `directory`, sorted by name.
std::vector<Leftover> leftovers_in(const std::string& directory);

// Returns the total size in bytes of all files below `path`; 0 when `path` disappears during the
// call.
i64 tree_bytes(const std::string& path);

}  // namespace lm::ckpt
