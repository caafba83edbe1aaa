// SPDX-License-Identifier: Apache-2.0
// The regular expressions of pre-tokenizers, exactly as tokenizer.json files spell them. The reader
// of tokenizer.json recognises them by their text, and the writer puts them into the files of
// trained tokenizers.
#pragma once

#include <string_view>

namespace lm::text::pattern {

#define LM_CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LM_SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
// The words of o200k and Tekken, where capitals can only begin a word. `tail` is appended to each
// alternative.
#define LM_CASED(tail)                                                                     \
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" tail \
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" tail

inline constexpr std::string_view gpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view llama3 =
    LM_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" LM_SPACES;
inline constexpr std::string_view qwen2 =
    LM_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" LM_SPACES;
inline constexpr std::string_view qwen3_5 = LM_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" LM_SPACES;
inline constexpr std::string_view o200k =
    LM_CASED(LM_CONTRACTION "?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LM_SPACES;
inline constexpr std::string_view tekken =
    LM_CASED("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LM_SPACES;
inline constexpr std::string_view bloom = " ?[^(\\s|[.,!?…。，、।۔،])]+";

// tiktoken's spelling of the patterns of Llama-3 and Qwen2. Both spellings have the same matches,
// because the possessive quantifiers forbid only backtracking that cannot succeed, and the \s*
// before the last line end also matches the line ends before it.
inline constexpr std::string_view cl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
inline constexpr std::string_view cl100k_one_digit =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";

// The patterns of DeepSeek, which are applied in sequence.
inline constexpr std::string_view numbers_by_three = R"(\p{N}{1,3})";
inline constexpr std::string_view han_and_kana = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
inline constexpr std::string_view deepseek_v3 =
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
inline constexpr std::string_view line_end = "[\r\n]";
inline constexpr std::string_view spaced_letters = R"(\s?\p{L}+)";
inline constexpr std::string_view spaced_punctuation = R"(\s?\p{P}+)";
inline constexpr std::string_view han_and_hangul = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";

// The last pattern of Falcon.
inline constexpr std::string_view three_digits = "[0-9][0-9][0-9]";

#undef LM_CASED
#undef LM_SPACES
#undef LM_CONTRACTION

}  // namespace lm::text::pattern
