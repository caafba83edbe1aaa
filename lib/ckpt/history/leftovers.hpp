// SPDX-License-Identifier: Apache-2.0
// Left-overs in a directory of steps: temporary files and directories, whose names contain ".tmp.".
// Programs that save, copy or remove steps create them. They remain when such a program is killed,
// and also exist while it runs.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

struct Leftover {
    std::string name;
    i64 bytes = 0;
    double age_s = 0;     // seconds since the last change of any file in it
    bool in_use = false;  // a running copy holds the lock in this directory
};

// Returns the left-overs of `directory`, sorted by name.
std::vector<Leftover> leftovers_in(const std::string& directory);

// Returns the total size in bytes of all files below `path`; 0 when `path` disappears during the
// call.
i64 tree_bytes(const std::string& path);

}  // namespace lm::ckpt
