// SPDX-License-Identifier: Apache-2.0
// Which classes of transformers can hold a model. The rules follow from the keys of a class and
// from the members that no key sets: a class can hold the models that a config.json of it can
// describe.
#pragma once

#include <optional>
#include <string>

#include "convert/hf/classes.hpp"

namespace lm::convert {

// The first setting of a model that a class cannot express: its flag and its value.
struct Misfit {
    std::string flag;
    std::string has;
};
// Returns nullopt when a config.json of the class can describe the model.
std::optional<Misfit> inexpressible(const HfClass& hf, const spec::ModelConfig& config);
// Returns nullopt when all versions of the class can hold the model.
std::optional<Misfit> misfit(const HfClass& hf, const spec::ModelConfig& config);
// If there is a misfit, throws Error(usage) that names the flag and the classes that can hold the
// model.
void check_fits(const HfClass& hf, const spec::ModelConfig& config);
// Returns the first class that can hold the model. Throws Error(usage) when there is none.
const HfClass& choose_class(const spec::ModelConfig& config);

}  // namespace lm::convert
