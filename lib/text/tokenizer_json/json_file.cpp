// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json/json_file.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::text {
namespace {

// Returns the value of the member `key` of the file `path`.
io::Json small(const simdjson::dom::element& value, const std::string& path, std::string_view key) {
    return io::parse_json(simdjson::minify(value), fmt::format("{}: '{}'", path, key));
}

// Returns whether `text` has several lines, the first of which is a whole JSON object.
bool is_json_lines(std::string_view text) {
    const size_t end = text.find('\n');
    return end != text.npos && text.find_first_not_of(" \t\r\n", end) != text.npos &&
           io::json_or_null(text.substr(0, end)).is_object();
}

}  // namespace

void TokenizerJsonFile::load(const std::string& path) {
    const std::string text = io::read_file(path);
    try {
        read(parser_.parse(text), path);
    } catch (const simdjson::simdjson_error& error) {
        if (is_json_lines(text)) {
            run_error(path,
                      "not a tokenizer.json: expected one JSON object with the key 'model', got "
                      "JSON Lines");
        }
        io::parse_json(text, path);  // its error contains the position
        run_error(path, "not valid JSON: {}", error.what());
    }
}

void TokenizerJsonFile::read(const simdjson::dom::element& whole, const std::string& path) {
    if (!whole.is_object()) {
        rest_ = io::parse_json(simdjson::minify(whole), path);
        return;
    }
    rest_ = io::Json::object();
    for (const auto& [key, value] : simdjson::dom::object(whole)) {
        const bool has_tables = key == "model" && value.is_object();
        rest_[std::string(key)] = has_tables ? read_model(value, path) : small(value, path, key);
    }
}

io::Json TokenizerJsonFile::read_model(const simdjson::dom::object& model,
                                       const std::string& path) {
    io::Json rest = io::Json::object();
    for (const auto& [key, value] : model) {
        if (key == "vocab" && value.is_object()) {
            vocab_ = simdjson::dom::object(value);
        } else if (key == "merges" && value.is_array()) {
            merges_ = simdjson::dom::array(value);
        } else {
            rest[std::string(key)] = small(value, path, key);
        }
    }
    return rest;
}

}  // namespace lm::text
