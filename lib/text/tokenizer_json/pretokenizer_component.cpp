// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer of a tokenizer.json is a sequence of parts. For each supported sequence
// lm-utils has a pre-tokenizer in C++. A sequence is recognised as a whole, by the exact text of
// its regular expressions. Every other sequence is refused.
#include "text/tokenizer_json/pretokenizer_component.hpp"

#include <algorithm>

#include "text/pretokenizer/patterns.hpp"
#include "text/tokenizer_json/component.hpp"

namespace lm::text {
namespace {

using io::Json;

// Each part is represented by a text. The text of a Split that isolates its matches is its pattern.
// The other parts have one of the following texts.
constexpr std::string_view each_digit = "Digits with individual_digits";
constexpr std::string_view digit_runs = "Digits";
constexpr std::string_view punctuation_runs = "Punctuation with behavior Contiguous";
constexpr std::string_view bytes_only = "ByteLevel without use_regex";
constexpr std::string_view bytes_gpt2 = "ByteLevel with use_regex";

constexpr size_t max_parts = 6;

struct KnownSequence {
    PretokenizerRule rule;
    std::string_view parts[max_parts];  // unused elements are empty
};

constexpr KnownSequence known_sequences[] = {
    {PretokenizerRule::gpt2, {bytes_gpt2}},
    {PretokenizerRule::none, {bytes_only}},
    {PretokenizerRule::gpt2, {pattern::gpt2, bytes_only}},
    {PretokenizerRule::llama3, {pattern::llama3, bytes_only}},
    {PretokenizerRule::qwen2, {pattern::qwen2, bytes_only}},
    {PretokenizerRule::qwen3_5, {pattern::qwen3_5, bytes_only}},
    {PretokenizerRule::o200k, {pattern::o200k, bytes_only}},
    {PretokenizerRule::tekken, {pattern::tekken, bytes_only}},
    {PretokenizerRule::bloom, {pattern::bloom, bytes_only}},
    {PretokenizerRule::llama3, {pattern::cl100k, bytes_only}},
    {PretokenizerRule::qwen2, {pattern::cl100k_one_digit, bytes_only}},
    {PretokenizerRule::starcoder, {each_digit, bytes_gpt2}},
    {PretokenizerRule::digits, {digit_runs, bytes_gpt2}},
    {PretokenizerRule::deepseek_v3,
     {pattern::numbers_by_three, pattern::han_and_kana, pattern::deepseek_v3, bytes_only}},
    {PretokenizerRule::deepseek_coder,
     {pattern::line_end, pattern::spaced_letters, pattern::spaced_punctuation,
      pattern::han_and_hangul, each_digit, bytes_only}},
    {PretokenizerRule::falcon, {punctuation_runs, bytes_gpt2, digit_runs, pattern::three_digits}},
};

bool is_known_part(std::string_view part) {
    return !part.empty() && std::ranges::any_of(known_sequences, [&](const KnownSequence& known) {
        return std::ranges::find(known.parts, part) != std::end(known.parts);
    });
}

// Returns whether the matches of the pattern cover every text, without gaps between them.
bool leaves_no_gap(std::string_view regex) {
    constexpr std::string_view complete[] = {
        pattern::gpt2,  pattern::llama3, pattern::qwen2,  pattern::qwen3_5,
        pattern::o200k, pattern::tekken, pattern::cl100k, pattern::cl100k_one_digit};
    return std::ranges::find(complete, regex) != std::end(complete);
}

std::string split_part(const Component& part) {
    part.only({"pattern", "behavior", "invert"});
    const std::string behavior = part.text("behavior");
    const bool invert = part.flag("invert");
    const Json& pattern = part.get("pattern");
    std::string regex;
    if (pattern.is_object() && pattern.size() == 1 && pattern.contains("Regex"))
        regex = io::json_get<std::string>(pattern, "Regex", part.path());
    if (!is_known_part(regex)) refuse(part.path(), "the Split pattern {}", pattern.dump());
    const bool isolated = behavior == "Isolated" && !invert;
    const bool gaps_removed = behavior == "Removed" && invert && leaves_no_gap(regex);
    if (!isolated && !gaps_removed)
        refuse(part.path(), "Split with behavior '{}' and invert {}", behavior, invert);
    return regex;
}

std::string punctuation_part(const Component& part) {
    part.only({"behavior"});
    const bool given = !part.get("behavior").is_null();
    const std::string behavior = given ? part.text("behavior") : "Isolated";
    return "Punctuation with behavior " + behavior;
}

std::string part_text(const Component& part) {
    if (part.type() == "Split") return split_part(part);
    if (part.type() == "Punctuation") return punctuation_part(part);
    if (part.type() == "Digits") {
        part.only({"individual_digits"});
        return std::string(part.flag("individual_digits") ? each_digit : digit_runs);
    }
    if (part.type() != "ByteLevel") part.refuse_type();
    part.only({"add_prefix_space", "trim_offsets", "use_regex"});
    return std::string(part.flag("use_regex", true) ? bytes_gpt2 : bytes_only);
}

void collect(const Json& json, const std::string& path, std::vector<Component>& parts) {
    const Component part(json, "pre_tokenizer", path);
    if (part.type() != "Sequence") return parts.push_back(part);
    part.only({"pretokenizers"});
    for (const Json& inner : part.array("pretokenizers")) collect(inner, path, parts);
}

std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return text;
}

bool is_sequence(const KnownSequence& known, const std::vector<std::string>& parts) {
    const auto end = std::ranges::find(known.parts, "");
    return std::equal(std::begin(known.parts), end, parts.begin(), parts.end());
}

io::OrderedJson part_json(std::string_view part) {
    if (part == each_digit || part == digit_runs)
        return {{"type", "Digits"}, {"individual_digits", part == each_digit}};
    if (part == punctuation_runs) return {{"type", "Punctuation"}, {"behavior", "Contiguous"}};
    if (part == bytes_only || part == bytes_gpt2) return byte_level_json(part == bytes_gpt2);
    return {{"type", "Split"},
            {"pattern", {{"Regex", part}}},
            {"behavior", "Isolated"},
            {"invert", false}};
}

}  // namespace

io::OrderedJson byte_level_json(bool use_regex) {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", use_regex}};
}

PretokenizerSettings read_pretokenizer(const Json& json, const std::string& path) {
    if (json.is_null()) refuse(path, "a tokenizer without the pre_tokenizer ByteLevel");
    std::vector<Component> parts;
    collect(json, path, parts);
    std::vector<std::string> texts;
    for (const Component& part : parts) texts.push_back(part_text(part));
    const auto known = std::ranges::find_if(
        known_sequences, [&](const KnownSequence& one) { return is_sequence(one, texts); });
    if (known == std::end(known_sequences))
        refuse(path, "a pre_tokenizer of the parts ({})", joined(texts));
    bool prefix_space = false;
    for (const Component& part : parts)
        prefix_space |= part.type() == "ByteLevel" && part.flag("add_prefix_space", true);
    if (prefix_space && parts.size() > 1)
        refuse(path, "ByteLevel with add_prefix_space in a sequence of {}", joined(texts));
    return {known->rule, prefix_space};
}

io::OrderedJson pretokenizer_json(PretokenizerRule rule) {
    const auto known = std::ranges::find(known_sequences, rule, &KnownSequence::rule);
    LM_CHECK(known != std::end(known_sequences),
             "expected a pre-tokenizer rule of known_sequences, got rule {}",
             static_cast<int>(rule));
    io::OrderedJson parts = io::OrderedJson::array();
    for (const std::string_view part : known->parts) {
        if (!part.empty()) parts.push_back(part_json(part));
    }
    if (parts.size() == 1) return parts[0];
    return {{"type", "Sequence"}, {"pretokenizers", parts}};
}

}  // namespace lm::text
