// SPDX-License-Identifier: Apache-2.0
// Models that have a name: the shapes of published trainings, for --model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/model.hpp"

namespace lm::config {

struct Preset {
    std::string_view name;
    std::string_view source;  // who trained it
    spec::ModelConfig model;  // unresolved
};

const std::vector<Preset>& presets();

// Throws Error(usage) naming the known ones.
const Preset& preset_named(std::string_view name);

// The command line that means the same without --model: "--num-layers 12 --hidden-size 768 ...",
// only what differs from the defaults.
std::string as_flags(const spec::ModelConfig& model);

// What `model` has otherwise than `preset`; both resolved.
struct Override {
    std::string_view flag;
    std::string text;  // "--hidden-size 512 instead of 768"
};
std::vector<Override> overrides(const spec::ModelConfig& preset, const spec::ModelConfig& model);

}  // namespace lm::config
