// SPDX-License-Identifier: Apache-2.0
// Abandoned steps: steps that are not on the current branch (lineage.hpp). set_aside() renames them
// to DIR/abandoned-gN/global_stepM, where N is the generation that superseded them. Abandoned steps
// exist until lm-ckpt prune --abandoned removes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

constexpr std::string_view abandoned_prefix = "abandoned-g";
i64 number_after(std::string_view name, std::string_view prefix);  // the N of PREFIXN; 0: none
i64 abandoned_generation(std::string_view name);  // the N of "abandoned-gN"; 0 for other names

std::string abandoned_path(const std::string& directory, i64 generation);  // DIR/abandoned-gN

// Moves `name` of `directory` into abandoned_path(directory, generation), which it creates if
// needed, by a durable rename, and returns the new path. If that directory has the name already,
// the new name gets the suffix ".2",
// ".3", ...
std::string set_aside(const std::string& directory, const std::string& name, i64 generation);

// Returns the names of the abandoned-gN directories, by ascending generation.
std::vector<std::string> abandoned_in(const std::string& directory);
i64 newest_abandoned(const std::string& directory);  // largest N of abandoned-gN; 0: none

}  // namespace lm::ckpt
