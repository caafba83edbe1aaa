// SPDX-License-Identifier: Apache-2.0
// Named models for --model: the shapes of published trainings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/model.hpp"

namespace lm::config {

struct Preset {
    std::string_view name;
    std::string_view source;  // who trained it
    spec::ModelConfig model;  // before ModelConfig::resolve()
};

const std::vector<Preset>& presets();

// Returns the preset; throws Error(usage) listing the names.
const Preset& preset_named(std::string_view name);

// Returns the flags that mean the same as the model, "--num-layers 12 --hidden-size 768 ...",
// without those that have their defaults.
std::string as_flags(const spec::ModelConfig& model);

// A value of a model that differs from its preset.
struct Override {
    std::string_view flag;
    std::string text;  // "--hidden-size 512 instead of 768"
};
// Both models are resolved.
std::vector<Override> overrides(const spec::ModelConfig& preset, const spec::ModelConfig& model);

}  // namespace lm::config
