// SPDX-License-Identifier: Apache-2.0
#include "io/output_place.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::io {

void require_parent(const std::string& path) {
    const std::string parent = parent_of(path);
    if (!exists(parent))
        usage_error(path, "the directory {} does not exist: create it first", parent);
}

}  // namespace lm::io
