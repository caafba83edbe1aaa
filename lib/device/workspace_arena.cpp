// SPDX-License-Identifier: Apache-2.0
#include "device/workspace_arena.hpp"

#include "base/error.hpp"

namespace lm::device {

void WorkspaceArena::throw_too_small(i64 needed, i64 left) {
    bug(__FILE__, __LINE__, fmt::format("workspace: expected {} free bytes, got {}", needed, left));
}

}  // namespace lm::device
