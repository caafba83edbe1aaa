// SPDX-License-Identifier: Apache-2.0
// The files that are mapped into memory now, for a handler of SIGBUS. A read of a mapping beyond
// the end of a file that became shorter, or of a page that cannot be read, raises SIGBUS; the
// kernel states only the address.
#pragma once

#include <string>

#include "base/types.hpp"

namespace lm::io {

struct Mapping {
    const char* path;
    i64 size;  // bytes of the file when it was mapped
};

void add_mapping(const void* data, i64 size, const std::string& path);
void remove_mapping(const void* data);

// Returns the mapping that contains `address`; a null path without one. Async-signal-safe: takes no
// lock and allocates nothing. The result is valid until the file is unmapped.
Mapping mapping_at(const void* address) noexcept;

}  // namespace lm::io
