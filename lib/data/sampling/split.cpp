// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/split.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/units.hpp"

namespace lm::data {
namespace {

i64 round_half_even(double x) {
    return static_cast<i64>(std::nearbyint(x));
}

std::array<SequenceRange, 3> nvidia_ranges(const std::array<double, 3>& fractions, i64 n) {
    std::array<SequenceRange, 3> out;
    double cumulative = 0;
    i64 begin = 0;
    for (size_t k = 0; k < 3; ++k) {
        cumulative += fractions[k];
        const i64 end = round_half_even(cumulative * static_cast<double>(n));
        out[k] = {begin, end};
        begin = end;
    }
    return out;
}

std::array<SequenceRange, 3> bigscience_ranges(const std::array<double, 3>& fractions, i64 n) {
    std::array<i64, 4> bound{};
    for (size_t k = 0; k < 3; ++k) {
        bound[k + 1] = bound[k] + round_half_even(fractions[k] * static_cast<double>(n));
    }
    const i64 overshoot = bound[3] - n;
    for (size_t k = 1; k < 4; ++k) bound[k] -= overshoot;
    std::array<SequenceRange, 3> out;
    for (size_t k = 0; k < 3; ++k) out[k] = {bound[k], bound[k + 1]};
    return out;
}

}  // namespace

std::string_view name_of(SplitPart part) {
    constexpr std::array<std::string_view, 3> names = {"train", "valid", "test"};
    return names[static_cast<size_t>(part)];
}

Split parse_split(std::string_view text) {
    constexpr std::string_view option = "--split";
    Split split;
    size_t part = 0;
    std::string_view rest = text;
    // As in Megatron-LM, quotes, brackets and blanks around the numbers have no meaning.
    constexpr std::string_view around = " \t'\"()[]";
    for (bool more = true; more; ++part) {
        const size_t comma = rest.find_first_of(",/");
        more = comma != std::string_view::npos;
        std::string_view word = rest.substr(0, comma);
        if (more) rest.remove_prefix(comma + 1);
        word.remove_prefix(std::min(word.find_first_not_of(around), word.size()));
        word = word.substr(0, word.find_last_not_of(around) + 1);
        if (part >= 3) {
            usage_error(option, "'{}' has more than three numbers (train,valid,test)", text);
        }
        split.weights[part] = parse_number(option, word);
        if (split.weights[part] < 0) usage_error(option, "'{}' has a negative number", text);
    }
    if (split.weights[0] + split.weights[1] + split.weights[2] <= 0) {
        usage_error(option, "'{}' assigns no data to any set: give at least one number above 0",
                    text);
    }
    return split;
}

std::array<SequenceRange, 3> split_ranges(const Split& split, i64 n, SplitRounding rounding) {
    const double sum = split.weights[0] + split.weights[1] + split.weights[2];
    std::array<double, 3> fractions{};
    for (size_t k = 0; k < 3; ++k) fractions[k] = split.weights[k] / sum;
    return rounding == SplitRounding::nvidia ? nvidia_ranges(fractions, n)
                                             : bigscience_ranges(fractions, n);
}

}  // namespace lm::data
