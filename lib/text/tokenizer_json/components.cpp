// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json/components.hpp"

#include <algorithm>

#include "io/json.hpp"
#include "text/tokenizer_json/component.hpp"

namespace lm::text {
namespace {

using io::Json;

struct KnownForm {
    const char* type;
    NormalizerStep::Kind kind;
};

constexpr KnownForm known_forms[] = {
    {"NFC", NormalizerStep::Kind::nfc},
    {"NFD", NormalizerStep::Kind::nfd},
    {"NFKC", NormalizerStep::Kind::nfkc},
    {"NFKD", NormalizerStep::Kind::nfkd},
    {"Lowercase", NormalizerStep::Kind::lowercase},
    {"StripAccents", NormalizerStep::Kind::strip_accents},
};

// Returns the literal text of a pattern. Throws for a regular expression.
std::string literal_pattern(const Component& part) {
    const Json& pattern = part.get("pattern");
    if (!pattern.is_object() || pattern.size() != 1) part.refuse_type();
    if (!pattern.contains("String"))
        refuse(part.path(), "the pattern {} of {}", pattern.dump(), part.type());
    auto text = io::json_get<std::string>(pattern, "String", part.path());
    if (text.empty()) refuse(part.path(), "the empty pattern of {}", part.type());
    return text;
}

NormalizerStep strip_step(const Component& part) {
    part.only({"strip_left", "strip_right"});
    NormalizerStep step{NormalizerStep::Kind::strip};
    step.left = part.flag("strip_left", true);
    step.right = part.flag("strip_right", true);
    return step;
}

NormalizerStep replace_step(const Component& part) {
    part.only({"pattern", "content"});
    return {NormalizerStep::Kind::replace, literal_pattern(part), part.text("content")};
}

void read_steps(const Json& json, const std::string& path, std::vector<NormalizerStep>& steps) {
    const Component part(json, "normalizer", path);
    const std::string& type = part.type();
    const auto form = std::ranges::find(known_forms, type, &KnownForm::type);
    if (type == "Sequence") {
        part.only({"normalizers"});
        for (const Json& inner : part.array("normalizers")) read_steps(inner, path, steps);
    } else if (form != std::end(known_forms)) {
        part.only({});
        steps.push_back({form->kind});
    } else if (type == "Strip") {
        steps.push_back(strip_step(part));
    } else if (type == "Replace") {
        steps.push_back(replace_step(part));
    } else if (type == "Prepend") {
        part.only({"prepend"});
        const std::string text = part.text("prepend");
        if (text.empty()) refuse(part.path(), "the normalizer Prepend of an empty text");
        steps.push_back({NormalizerStep::Kind::prepend, "", text});
    } else {
        part.refuse_type();
    }
}

i32 template_id(const Json& value, const std::string& path) {
    const i64 id = io::json_as<i64>(value, "an id of the post_processor", path);
    if (id < 0 || id >= i64{1} << 21)
        run_error(path, "post_processor: id {} is out of range: expected 0 to 2097151", id);
    return static_cast<i32>(id);
}

// Returns the id of a pair such as ["</s>", 2]. BertProcessing and RobertaProcessing have two
// pairs.
i32 pair_id(const Component& part, const char* key) {
    const Json& pair = part.array(key);
    if (pair.size() != 2) run_error(part.path(), "'{}' of {} is not [token, id]", key, part.type());
    return template_id(pair[1], part.path());
}

Template single_template(const Component& part) {
    part.only({"single", "pair", "special_tokens"});
    Template result;
    int n_texts = 0;
    for (const Json& item : part.array("single")) {
        if (item.is_object() && item.contains("Sequence")) {
            ++n_texts;
            continue;
        }
        const auto token = io::json_get<Json>(item, "SpecialToken", part.path());
        const auto name = io::json_get<std::string>(token, "id", part.path());
        const Json& tokens = part.get("special_tokens");
        if (!tokens.is_object() || !tokens.contains(name))
            run_error(part.path(), "post_processor: token '{}' is not in its special_tokens", name);
        for (const Json& id : io::json_get<Json>(tokens.at(name), "ids", part.path()))
            (n_texts > 0 ? result.suffix : result.prefix).push_back(template_id(id, part.path()));
    }
    if (n_texts != 1) refuse(part.path(), "a template with {} texts", n_texts);
    return result;
}

Template one_post_processor(const Json& json, const std::string& path) {
    const Component part(json, "post_processor", path);
    if (part.type() == "TemplateProcessing") return single_template(part);
    if (part.type() == "ByteLevel") return {};  // ByteLevel changes only offsets, no ids
    if (part.type() != "BertProcessing" && part.type() != "RobertaProcessing") part.refuse_type();
    return {{pair_id(part, "cls")}, {pair_id(part, "sep")}};
}

}  // namespace

Normalizer read_normalizer(const Json& json, const std::string& path) {
    std::vector<NormalizerStep> steps;
    if (!json.is_null()) read_steps(json, path, steps);
    return Normalizer(std::move(steps));
}

Template read_post_processor(const Json& json, const std::string& path) {
    if (json.is_null()) return {};
    const Component part(json, "post_processor", path);
    if (part.type() != "Sequence") return one_post_processor(json, path);
    part.only({"processors"});
    Template whole;
    for (const Json& inner : part.array("processors")) {  // each adds ids around the earlier ids
        const Template one = one_post_processor(inner, path);
        whole.prefix.insert(whole.prefix.begin(), one.prefix.begin(), one.prefix.end());
        whole.suffix.insert(whole.suffix.end(), one.suffix.begin(), one.suffix.end());
    }
    return whole;
}

}  // namespace lm::text
