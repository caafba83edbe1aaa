// SPDX-License-Identifier: Apache-2.0
// The names that libraries give to their files in /dev/shm. They distinguish what a killed program
// left over from files that a user keeps there, such as local checkpoints or a staged dataset.
#pragma once

#include <optional>
#include <string_view>

#include "base/types.hpp"

namespace lm::cluster {

struct SegmentMaker {
    std::string_view program;
    i64 creator = 0;  // pid in the name; 0: the name has none
};

// Returns the library that makes files of this name directly in /dev/shm.
std::optional<SegmentMaker> maker_of(std::string_view file_name);

}  // namespace lm::cluster
