// SPDX-License-Identifier: Apache-2.0
// Names in a checkpoint directory that more than one file of this layer needs.
#pragma once

#include <string_view>

namespace lm::ckpt {

constexpr std::string_view manifest_file = "manifest.json";
constexpr std::string_view latest_file = "latest";
constexpr std::string_view temporary_mark = ".tmp.g";  // global_step7.tmp.g3: by generation 3
constexpr std::string_view copy_mark = ".tmp.copy";    // global_step7.tmp.copy: not all there yet

}  // namespace lm::ckpt
