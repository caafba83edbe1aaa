// SPDX-License-Identifier: Apache-2.0
// Named models for --model: the sizes of published models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/model.hpp"

namespace lm::config {

struct Preset {
    std::string_view name;
    std::string_view source;  // the paper or project that published the model
    spec::ModelConfig model;  // not yet resolved by ModelConfig::resolve()
};

const std::vector<Preset>& presets();

// Returns the preset with this name. For an unknown name, throws Error(usage) listing the known
// names.
const Preset& preset_named(std::string_view name);

// Returns the flags that describe the model, "--num-layers 12 --hidden-size 768 ...", without flags
// that have their default value.
std::string as_flags(const spec::ModelConfig& model);

// A value in which a model differs from its preset.
struct Override {
    std::string_view flag;
    std::string text;  // "--hidden-size 512 instead of 768"
};
// Returns the values in which `model` differs from `preset`. Both models are resolved.
std::vector<Override> overrides(const spec::ModelConfig& preset, const spec::ModelConfig& model);

}  // namespace lm::config
