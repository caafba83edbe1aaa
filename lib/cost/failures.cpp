// SPDX-License-Identifier: Apache-2.0
#include "cost/failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "base/types.hpp"
#include "base/units.hpp"

namespace lm::cost {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
    constexpr std::string_view blanks = " \t\r";
    std::vector<std::string_view> words;
    for (size_t at = 0; (at = text.find_first_not_of(blanks, at)) != text.npos;) {
        const size_t end = std::min(text.find_first_of(blanks, at), text.size());
        words.push_back(text.substr(at, end - at));
        at = end;
    }
    return words;
}

// Calls `each` with the place, the words and the comment of each line that has words.
void for_each_entry(
    const std::string& path, std::string_view text,
    const std::function<void(const std::string& place, const std::vector<std::string_view>& words,
                             std::string_view comment)>& each) {
    for (i64 number = 1; !text.empty(); ++number) {
        const std::string_view line = text.substr(0, text.find('\n'));
        const size_t hash = std::min(line.find('#'), line.size());
        const std::vector<std::string_view> words = words_of(line.substr(0, hash));
        if (!words.empty()) {
            std::string_view comment = line.substr(std::min(hash + 1, line.size()));
            comment.remove_prefix(std::min(comment.find_first_not_of(' '), comment.size()));
            each(fmt::format("{}:{}", path, number), words, comment);
        }
        text.remove_prefix(std::min(line.size() + 1, text.size()));
    }
}

double positive(const std::string& place, std::string_view text) {
    const double value = parse_number(place, text);
    if (!(value > 0)) usage_error(place, "{} is not above 0", value);
    return value;
}

}  // namespace

double draw_failure_s(const FailureTimes& times, u64 run, u64 index) {
    const double u = uniform(mix(stream_key(0, "failures"), run), index);
    if (!times.measured_s.empty()) {
        const double n = as_double(times.measured_s.size());
        return times.measured_s[static_cast<size_t>(u * n)];
    }
    // The mean of a Weibull distribution is its scale x Gamma(1 + 1 / shape).
    const double scale = times.mean_s / std::tgamma(1 + 1 / times.shape);
    return scale * std::pow(-std::log1p(-u), 1 / times.shape);
}

std::vector<FailureRate> parse_failure_rates(const std::string& path, std::string_view text) {
    std::vector<FailureRate> rates;
    for_each_entry(path, text, [&rates](const auto& place, const auto& words, auto comment) {
        if (words.size() != 4 || comment.empty())
            usage_error(place, "expected NAME GPUS FAILURES HOURS # SOURCE");
        rates.push_back({.name = std::string(words[0]),
                         .gpus = positive(place, words[1]),
                         .failures = positive(place, words[2]),
                         .hours = positive(place, words[3]),
                         .source = std::string(comment)});
    });
    return rates;
}

FailureTimes parse_failure_times(const std::string& path, std::string_view text) {
    FailureTimes times;
    for_each_entry(path, text, [&times](const auto& place, const auto& words, auto) {
        if (words.size() != 1)
            usage_error(place, "expected one duration in a line, got {} words", words.size());
        const double seconds = parse_duration(place, words[0]);
        if (!(seconds > 0)) usage_error(place, "{} is not above 0", words[0]);
        times.measured_s.push_back(seconds);
    });
    if (times.measured_s.empty())
        usage_error(path, "has no time between failures: write one duration in each line");
    times.mean_s = std::accumulate(times.measured_s.begin(), times.measured_s.end(), 0.0) /
                   as_double(times.measured_s.size());
    return times;
}

}  // namespace lm::cost
