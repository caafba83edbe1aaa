// SPDX-License-Identifier: Apache-2.0
// Declares the JSON types of json.hpp for headers that pass documents by reference. The full header
// takes a second to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace lm::io {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

}  // namespace lm::io
