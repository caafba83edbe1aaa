// SPDX-License-Identifier: Apache-2.0
// Files for fuzzed code that reads files: in memory and without fsync, which would take most of the
// time.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace lm::fuzz {

// Returns the directory of this process.
inline const std::string& directory() {
    static const std::string name = [] {
        std::string pattern = "/dev/shm/lm-fuzz.XXXXXX";
        if (::mkdtemp(pattern.data()) == nullptr) std::abort();
        return pattern;
    }();
    return name;
}

inline std::string put(const std::string& name, std::string_view content) {
    const std::string path = directory() + "/" + name;
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    return path;
}

}  // namespace lm::fuzz
