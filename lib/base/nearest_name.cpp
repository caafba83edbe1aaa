// SPDX-License-Identifier: Apache-2.0
#include "base/nearest_name.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/error.hpp"

namespace lm {
namespace {

bool same_letter(unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
}

// Returns the number of insertions, deletions, replacements and swaps of adjacent characters
// between two names (optimal string alignment distance). Ignores the difference between capital and
// small letters.
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = d[i - 1][j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

// Returns the only name of `known` for which matches() is true; "" when it is true for none or for
// several.
template <typename Matches>
std::string only_name(const std::vector<std::string>& known, Matches matches) {
    if (std::ranges::count_if(known, matches) != 1) return "";
    return *std::ranges::find_if(known, matches);
}

// Names of data types in PyTorch and NumPy, and the names here.
constexpr auto other_names = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"float32", "fp32"},
    {"float", "fp32"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"bfloat16", "bf16"},
    {"bfloat", "bf16"},
});

// Returns the text that suggests choices for `value`, such as "hf-gpt2" or "one that starts with
// hf-"; "" when no choice is near.
std::string suggestion(std::string_view value, const std::vector<std::string>& choices) {
    const auto same = [](std::string_view a, std::string_view b) {
        return std::ranges::equal(a, b, same_letter);
    };
    for (const auto& [other, name] : other_names) {
        const bool offered = std::ranges::find(choices, name) != choices.end();
        if (offered && same(other, value)) return std::string(name);
    }
    const std::string nearest = nearest_name(value, choices);
    if (!nearest.empty() || value.size() < 2) return nearest;
    // "hf" is the first word of "hf-gpt2", "hf-llama", ...
    const std::string start = fmt::format("{}-", value);
    const bool is_start = std::ranges::any_of(
        choices, [&](const std::string& choice) { return choice.starts_with(start); });
    return is_start ? "one that starts with " + start : "";
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
    const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
    const size_t letters = name.size() - dashes;
    if (letters < 2) return "";
    std::string best;
    size_t best_distance = std::max<size_t>(1, letters / 4) + 1;
    for (const std::string& candidate : known) {
        const size_t distance = edit_distance(name, candidate);
        if (distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    if (!best.empty() || letters < 3) return best;
    const auto longer = std::ranges::find_if(known, [&](const std::string& candidate) {
        return candidate.starts_with(name) && candidate.size() - dashes <= 2 * letters;
    });
    if (longer != known.end()) return *longer;
    if (letters < 4) return "";
    // Finds "--temperature" for "--temp", and "hf-gpt2" for "gpt2".
    const auto is_word = [](std::string_view rest) { return rest.find('-') == rest.npos; };
    const std::string start = only_name(known, [&](std::string_view candidate) {
        return candidate.starts_with(name) && is_word(candidate.substr(name.size()));
    });
    if (!start.empty()) return start;
    const std::string end = fmt::format("-{}", name.substr(dashes));
    return only_name(known, [&](std::string_view candidate) {
        return candidate.size() > dashes + end.size() && candidate.ends_with(end) &&
               is_word(candidate.substr(dashes, candidate.size() - dashes - end.size()));
    });
}

void refuse_value(std::string_view option, std::string_view value,
                  const std::vector<std::string>& choices) {
    const std::string meant = suggestion(value, choices);
    usage_error(option, "'{}' is not one of {}{}", value, fmt::join(choices, ", "),
                meant.empty() ? "" : ": did you mean " + meant + "?");
}

}  // namespace lm
