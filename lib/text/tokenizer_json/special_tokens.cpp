// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json/special_tokens.hpp"

#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::text {
namespace {

using io::Json;

constexpr const char* roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                 "pad_token", "cls_token", "mask_token"};
constexpr const char* other_tokens = "additional_special_tokens";

// A file in the directory of the tokenizer.json. If it is missing, `json` is an empty object.
struct NeighbourFile {
    std::string path;
    Json json = Json::object();

    static NeighbourFile read(const std::string& tokenizer, const char* name) {
        NeighbourFile file{(std::filesystem::path(tokenizer).parent_path() / name).string()};
        if (!io::exists(file.path)) return file;
        file.json = io::read_json(file.path);
        if (!file.json.is_object()) run_error(file.path, "not a JSON object");
        return file;
    }
    // Returns the value of `key`, or null if it is missing.
    Json get(const char* key) const { return json.contains(key) ? json[key] : Json(); }
};

// Reads a token, which is a string or an object with flags.
AddedToken token_of(const Json& json, const char* key, const std::string& path) {
    AddedToken token;
    if (json.is_object() && json.contains("content") && json["content"].is_string()) {
        token.content = json["content"].get<std::string>();
        token.special = io::json_get_or<bool>(json, "special", true, path);
        token.normalized = io::json_get_or<bool>(json, "normalized", !token.special, path);
        token.single_word = io::json_get_or<bool>(json, "single_word", false, path);
        token.lstrip = io::json_get_or<bool>(json, "lstrip", false, path);
        token.rstrip = io::json_get_or<bool>(json, "rstrip", false, path);
    } else if (json.is_string()) {
        token.content = json.get<std::string>();
    } else {
        run_error(path, "{}: expected a string or an object with a string 'content', got {}", key,
                  json.dump());
    }
    return token;
}

void add_others(const NeighbourFile& file, std::vector<AddedToken>& tokens) {
    for (const Json& json : file.get(other_tokens))
        tokens.push_back(token_of(json, other_tokens, file.path));
}

}  // namespace

// As in transformers, special_tokens_map.json, a file of older versions, overrides
// tokenizer_config.json, unless tokenizer_config.json has the list added_tokens_decoder. The tokens
// of this list come first in the result, because if several tokens have equal content, the caller
// uses the flags of the first.
NamedTokens read_named_tokens(const std::string& path) {
    constexpr const char* list = "added_tokens_decoder";
    const NeighbourFile config = NeighbourFile::read(path, "tokenizer_config.json");
    NamedTokens named;
    named.config_path = config.path;
    const auto flag = [&](const char* key) {
        const Json value = config.get(key);
        return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
    };
    named.adds_bos = flag("add_bos_token");
    named.adds_eos = flag("add_eos_token");
    std::optional<NeighbourFile> map;
    if (config.json.contains(list)) {
        for (const Json& json : config.json[list])
            named.tokens.push_back(token_of(json, list, config.path));
    } else {
        map = NeighbourFile::read(path, "special_tokens_map.json");
    }
    for (const char* role : roles) {
        const bool is_mapped = map && !map->get(role).is_null();
        const NeighbourFile& file = is_mapped ? *map : config;
        const Json json = file.get(role);
        if (json.is_null()) continue;
        AddedToken token = token_of(json, role, file.path);
        token.special = true;
        if (role == std::string_view("bos_token")) named.bos = token.content;
        if (role == std::string_view("eos_token")) {
            named.eos = token.content;
            named.eos_path = file.path;
        }
        named.tokens.push_back(std::move(token));
    }
    add_others(config, named.tokens);
    if (map) add_others(*map, named.tokens);
    return named;
}

}  // namespace lm::text
