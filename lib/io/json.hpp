// SPDX-License-Identifier: Apache-2.0
// Small JSON documents (configurations, manifests, side files): nlohmann/json with errors that name
// the file and the key. Corpora are read with simdjson in data/, not here.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lm::io {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Throws Error(failure) "PATH: not valid JSON at byte N: ...".
Json parse_json(std::string_view text, const std::string& path);
Json read_json(const std::string& path);

// The value of `key`, or Error(failure) "PATH: 'key' is missing" / "'key' is not a number".
template <typename T>
T json_get(const Json& object, const std::string& key, const std::string& path);

}  // namespace lm::io

#include "io/json_get.hpp"
