// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json/special_tokens.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::text {
namespace {

using io::Json;

constexpr const char* roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                 "pad_token", "cls_token", "mask_token"};
// The name of transformers 4, and that of transformers 5, which may also map names to tokens.
constexpr const char* other_tokens[] = {"additional_special_tokens", "extra_special_tokens"};
constexpr const char* decoder_key = "added_tokens_decoder";

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

// Reads a token, which is a string or an object with flags. `special`: the value of a missing flag.
AddedToken token_of(const Json& json, const char* key, const std::string& path,
                    bool special = true) {
    AddedToken token{.content = {}, .id = -1};
    if (json.is_object() && json.contains("content") && json["content"].is_string()) {
        token.content = json["content"].get<std::string>();
        token.special = io::json_get_or<bool>(json, "special", special, path);
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
    for (const char* key : other_tokens) {
        for (const Json& json : file.get(key)) tokens.push_back(token_of(json, key, file.path));
    }
}

// Returns the tokens of added_tokens_decoder, which maps numbers to tokens.
std::vector<AddedToken> decoder_tokens(const Json& decoder, const std::string& path) {
    std::map<std::pair<size_t, std::string>, AddedToken> sorted;  // "9" is less than "10"
    for (const auto& [number, json] : decoder.items()) {
        AddedToken token = token_of(json, decoder_key, path, false);
        std::from_chars(number.data(), number.data() + number.size(), token.id);
        sorted.emplace(std::pair(number.size(), number), std::move(token));
    }
    std::vector<AddedToken> tokens;
    for (auto& [number, token] : sorted) tokens.push_back(std::move(token));
    return tokens;
}

// Returns the tokens of added_tokens.json, which maps tokens to numbers. Those of `named` are
// special.
std::vector<AddedToken> old_added_tokens(const NeighbourFile& file,
                                         const std::vector<AddedToken>& named) {
    std::multimap<i64, AddedToken> sorted;
    for (const auto& [content, number] : file.json.items()) {
        if (!number.is_number_integer())
            run_error(file.path, "'{}': expected an id, got {}", content, number.dump());
        AddedToken token{.content = content, .id = number.get<i32>()};
        token.special = std::ranges::count(named, content, &AddedToken::content) > 0;
        token.normalized = !token.special;
        sorted.emplace(number.get<i64>(), std::move(token));
    }
    std::vector<AddedToken> tokens;
    for (auto& [number, token] : sorted) tokens.push_back(std::move(token));
    return tokens;
}

}  // namespace

// As in transformers, the files of older versions, special_tokens_map.json and added_tokens.json,
// are read only if tokenizer_config.json has no list added_tokens_decoder. Then
// special_tokens_map.json overrides tokenizer_config.json.
NamedTokens read_named_tokens(const std::string& path, std::span<const DefaultToken> defaults) {
    const NeighbourFile config = NeighbourFile::read(path, "tokenizer_config.json");
    NamedTokens named;
    named.config_path = config.path;
    const auto flag = [&](const char* key) {
        const Json value = config.get(key);
        return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
    };
    named.adds_bos = flag("add_bos_token");
    named.adds_eos = flag("add_eos_token");
    named.prefix_space = flag("add_prefix_space").value_or(false);
    named.splits_special = flag("split_special_tokens").value_or(false);
    const Json tokenizer_class = config.get("tokenizer_class");
    if (tokenizer_class.is_string()) named.tokenizer_class = tokenizer_class.get<std::string>();
    // The defaults of the classes that make their template from these two keys.
    for (const std::string_view name : {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"}) {
        if (!named.tokenizer_class.starts_with(name)) continue;
        named.adds_bos = named.adds_bos.value_or(true);
        named.adds_eos = named.adds_eos.value_or(false);
    }
    std::optional<NeighbourFile> map;
    if (config.json.contains(decoder_key)) {
        named.listed = decoder_tokens(config.json[decoder_key], config.path);
    } else {
        map = NeighbourFile::read(path, "special_tokens_map.json");
    }
    for (const char* role : roles) {
        const bool is_mapped = map && !map->get(role).is_null();
        const NeighbourFile& file = is_mapped ? *map : config;
        Json json = file.get(role);
        const auto absent = std::ranges::find(defaults, role, &DefaultToken::role);
        if (!file.json.contains(role) && absent != defaults.end()) json = absent->content;
        if (json.is_null()) continue;
        AddedToken token = token_of(json, role, file.path);
        token.special = true;
        if (role == std::string_view("bos_token")) named.bos = token.content;
        if (role == std::string_view("pad_token")) named.pad = token.content;
        if (role == std::string_view("eos_token")) {
            named.eos = token.content;
            named.eos_path = file.path;
        }
        named.tokens.push_back(std::move(token));
    }
    add_others(config, named.tokens);
    if (map) {
        add_others(*map, named.tokens);
        named.listed =
            old_added_tokens(NeighbourFile::read(path, "added_tokens.json"), named.tokens);
    }
    return named;
}

std::string tokenizer_class_in(const std::string& directory) {
    const std::string beside = directory + "/vocab.json";
    const NeighbourFile model = NeighbourFile::read(beside, "config.json");
    for (const Json& name :
         {NeighbourFile::read(beside, "tokenizer_config.json").get("tokenizer_class"),
          model.get("tokenizer_class")}) {
        if (name.is_string()) return name.get<std::string>();
    }
    const Json type = model.get("model_type");
    for (const char* known : {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe"}) {
        if (type == known) return "Qwen2Tokenizer";
    }
    return {};
}

}  // namespace lm::text
