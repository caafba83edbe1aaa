// SPDX-License-Identifier: Apache-2.0
#include "text/hf_parts.hpp"

#include <algorithm>

#include "text/hf_json.hpp"

namespace lm::text {
namespace {

using io::Json;

struct KnownPattern {
    SplitRule rule;
    std::string_view pattern;
};

// Split patterns are recognised by their text; each has a splitter written by hand.
constexpr KnownPattern known_patterns[] = {
    {SplitRule::gpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitRule::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitRule::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitRule::bloom, R"( ?[^(\s|[.,!?…。，、।۔،])]+)"},
};

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

// The literal text of a pattern; a regular expression is refused.
std::string literal_pattern(const HfPart& part) {
    const Json& pattern = part.get("pattern");
    if (!pattern.is_object() || pattern.size() != 1) part.refuse_type();
    if (!pattern.contains("String"))
        refuse(part.path(), "the pattern {} of {}", pattern.dump(), part.type());
    auto text = io::json_get<std::string>(pattern, "String", part.path());
    if (text.empty()) refuse(part.path(), "the empty pattern of {}", part.type());
    return text;
}

NormalizerStep strip_step(const HfPart& part) {
    part.only({"strip_left", "strip_right"});
    NormalizerStep step{NormalizerStep::Kind::strip};
    step.left = part.flag("strip_left", true);
    step.right = part.flag("strip_right", true);
    return step;
}

NormalizerStep replace_step(const HfPart& part) {
    part.only({"pattern", "content"});
    return {NormalizerStep::Kind::replace, literal_pattern(part), part.text("content")};
}

void read_steps(const Json& json, const std::string& path, std::vector<NormalizerStep>& steps) {
    const HfPart part(json, "normalizer", path);
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
        steps.push_back({NormalizerStep::Kind::prepend, "", part.text("prepend")});
    } else {
        part.refuse_type();
    }
}

SplitRule rule_of_split(const HfPart& part) {
    if (part.type() != "Split") part.refuse_type();
    part.only({"pattern", "behavior", "invert"});
    const std::string behavior = part.text("behavior");
    if (behavior != "Isolated" || part.flag("invert"))
        refuse(part.path(), "Split with behavior '{}' or invert", behavior);
    const Json& pattern = part.get("pattern");
    if (pattern.is_object() && pattern.size() == 1 && pattern.contains("Regex")) {
        const auto text = io::json_get<std::string>(pattern, "Regex", part.path());
        const auto known = std::ranges::find(known_patterns, text, &KnownPattern::pattern);
        if (known != std::end(known_patterns)) return known->rule;
    }
    refuse(part.path(), "the Split pattern {}", pattern.dump());
}

// Digits before ByteLevel, as StarCoder and SmolLM have it: each by itself.
SplitRule rule_of_digits(const HfPart& part) {
    part.only({"individual_digits"});
    return part.flag("individual_digits") ? SplitRule::starcoder : SplitRule::digits;
}

PreTokenizer byte_level(const HfPart& part) {
    part.only({"add_prefix_space", "trim_offsets", "use_regex"});
    return {part.flag("use_regex", true) ? SplitRule::gpt2 : SplitRule::none,
            part.flag("add_prefix_space", true)};
}

i32 template_id(const Json& value, const std::string& path) {
    const i64 id = io::json_as<i64>(value, "an id of the post_processor", path);
    if (id < 0 || id >= i64{1} << 21) run_error(path, "the post_processor has the id {}", id);
    return static_cast<i32>(id);
}

// ["</s>", 2], as BertProcessing and RobertaProcessing state their two tokens.
i32 pair_id(const HfPart& part, const char* key) {
    const Json& pair = part.array(key);
    if (pair.size() != 2) run_error(part.path(), "'{}' of {} is not [token, id]", key, part.type());
    return template_id(pair[1], part.path());
}

Template single_template(const HfPart& part) {
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
            run_error(part.path(), "post_processor names '{}', which its special_tokens lack",
                      name);
        for (const Json& id : io::json_get<Json>(tokens.at(name), "ids", part.path()))
            (n_texts > 0 ? result.suffix : result.prefix).push_back(template_id(id, part.path()));
    }
    if (n_texts != 1) refuse(part.path(), "a template with {} texts", n_texts);
    return result;
}

Template one_post_processor(const Json& json, const std::string& path) {
    const HfPart part(json, "post_processor", path);
    if (part.type() == "TemplateProcessing") return single_template(part);
    if (part.type() == "ByteLevel") return {};  // trims offsets
    if (part.type() != "BertProcessing" && part.type() != "RobertaProcessing") part.refuse_type();
    return {{pair_id(part, "cls")}, {pair_id(part, "sep")}};
}

}  // namespace

Normalizer read_normalizer(const Json& json, const std::string& path) {
    std::vector<NormalizerStep> steps;
    if (!json.is_null()) read_steps(json, path, steps);
    return Normalizer(std::move(steps));
}

PreTokenizer read_pre_tokenizer(const Json& json, const std::string& path) {
    if (json.is_null()) refuse(path, "a tokenizer without the pre_tokenizer ByteLevel");
    const HfPart part(json, "pre_tokenizer", path);
    if (part.type() == "ByteLevel") return byte_level(part);
    if (part.type() != "Sequence") part.refuse_type();
    part.only({"pretokenizers"});
    const Json& parts = part.array("pretokenizers");
    if (parts.size() == 1) return read_pre_tokenizer(parts[0], path);
    if (parts.size() != 2) refuse(path, "a pre_tokenizer Sequence of {} parts", parts.size());
    const HfPart first(parts[0], "pre_tokenizer", path);
    const bool digits = first.type() == "Digits";
    const SplitRule rule = digits ? rule_of_digits(first) : rule_of_split(first);
    const HfPart last(parts[1], "pre_tokenizer", path);
    if (last.type() != "ByteLevel") last.refuse_type();
    const PreTokenizer bytes = byte_level(last);
    if (digits != (bytes.rule == SplitRule::gpt2))
        refuse(path, "ByteLevel {} use_regex behind {}", digits ? "without" : "with", first.type());
    if (bytes.prefix_space) refuse(path, "ByteLevel with add_prefix_space behind {}", first.type());
    return {rule, false};
}

Template read_post_processor(const Json& json, const std::string& path) {
    if (json.is_null()) return {};
    const HfPart part(json, "post_processor", path);
    if (part.type() != "Sequence") return one_post_processor(json, path);
    part.only({"processors"});
    Template whole;
    for (const Json& inner : part.array("processors")) {  // each around what those before made
        const Template one = one_post_processor(inner, path);
        whole.prefix.insert(whole.prefix.begin(), one.prefix.begin(), one.prefix.end());
        whole.suffix.insert(whole.suffix.end(), one.suffix.begin(), one.suffix.end());
    }
    return whole;
}

std::string_view split_pattern(SplitRule rule) {
    const auto known = std::ranges::find(known_patterns, rule, &KnownPattern::rule);
    return known == std::end(known_patterns) ? "" : known->pattern;
}

}  // namespace lm::text
