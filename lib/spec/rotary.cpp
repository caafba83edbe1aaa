// SPDX-License-Identifier: Apache-2.0
#include "spec/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/problem_list.hpp"

namespace lm::spec {

std::string_view name_of(RotaryRule value) {
    return name_in(rotary_rules, value);
}

RotaryScaling usual_scaling(RotaryRule rule) {
    RotaryScaling scaling{.rule = rule};
    switch (rule) {
        case RotaryRule::none:
            break;
        case RotaryRule::llama3:
            scaling.factor = 8;
            scaling.original_length = 8192;
            break;
        case RotaryRule::linear:
        case RotaryRule::yarn:
        case RotaryRule::longrope:
            scaling.factor = 1;
            if (rule != RotaryRule::linear) scaling.original_length = 4096;
            break;
    }
    return scaling;
}

namespace {

// Returns 0.1 * scale * ln(factor) + 1 (Peng et al. 2023, equation 22, and their code).
double yarn_mscale(double factor, double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

double turns_of(double frequency, const RotaryScaling& scaling) {
    return static_cast<double>(scaling.original_length) * frequency / (2 * std::numbers::pi);
}

// Divides frequencies with at most `low_freq_factor` turns in the original context, keeps those
// with at least `high_freq_factor`, and interpolates between them.
void scale_llama3(const RotaryScaling& scaling, std::vector<double>& all) {
    const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
    for (double& frequency : all) {
        const double kept =
            std::clamp((turns_of(frequency, scaling) - low) / (high - low), 0.0, 1.0);
        frequency = (1 - kept) * frequency / scaling.factor + kept * frequency;
    }
}

// Keeps the frequencies with `beta_fast` turns or more in the original context, divides those with
// `beta_slow` or less, and interpolates by their numbers.
void scale_yarn(const RotaryFrequencies& rotary, std::vector<double>& all) {
    const RotaryScaling& scaling = rotary.scaling;
    const auto dim = static_cast<double>(2 * all.size());
    // Returns the number of the frequency with `turns` turns, a fraction.
    const auto number = [&](double turns) {
        return dim *
               std::log(static_cast<double>(scaling.original_length) /
                        (turns * 2 * std::numbers::pi)) /
               (2 * std::log(rotary.base));
    };
    double first = number(scaling.beta_fast), last = number(scaling.beta_slow);
    if (scaling.truncate) first = std::floor(first), last = std::ceil(last);
    first = std::max(first, 0.0);
    last = std::min(last, dim - 1);  // as in the authors' code, which counts elements here
    if (first == last) last += 0.001;
    for (size_t i = 0; i < all.size(); ++i) {
        const double divided =
            std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
        all[i] = divided * all[i] / scaling.factor + (1 - divided) * all[i];
    }
}

}  // namespace

double attention_factor(const RotaryScaling& scaling) {
    if (scaling.attention_factor > 0) return scaling.attention_factor;
    switch (scaling.rule) {
        case RotaryRule::none:
        case RotaryRule::linear:
        case RotaryRule::llama3:
            return 1;
        case RotaryRule::yarn:
            return yarn_mscale(scaling.factor, scaling.mscale) /
                   yarn_mscale(scaling.factor, scaling.mscale_all_dim);
        case RotaryRule::longrope:
            if (scaling.factor <= 1) return 1;
            return std::sqrt(1 + std::log(scaling.factor) /
                                     std::log(static_cast<double>(scaling.original_length)));
    }
    __builtin_unreachable();
}

std::vector<double> frequencies(const RotaryFrequencies& rotary, i64 rotary_dim, i64 length) {
    const RotaryScaling& scaling = rotary.scaling;
    std::vector<double> all;
    for (i64 i = 0; i < rotary_dim / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim);
        all.push_back(std::pow(rotary.base, exponent));
    }
    switch (scaling.rule) {
        case RotaryRule::none:
            break;
        case RotaryRule::linear:
            for (double& frequency : all) frequency /= scaling.factor;
            break;
        case RotaryRule::llama3:
            scale_llama3(scaling, all);
            break;
        case RotaryRule::yarn:
            scale_yarn(rotary, all);
            break;
        case RotaryRule::longrope: {
            const bool is_short = length <= scaling.original_length;
            const auto& factors = is_short ? scaling.short_factors : scaling.long_factors;
            for (size_t i = 0; i < all.size(); ++i) all[i] /= factors.at(i);
            break;
        }
    }
    return all;
}

double query_scale(const RotaryFrequencies& rotary, i64 position) {
    if (rotary.query_beta == 0) return 1;
    const auto turns = static_cast<double>(position / rotary.scaling.original_length);
    return 1 + rotary.query_beta * std::log(1 + turns);
}

namespace {

void check_factors(std::string_view flag, const std::vector<double>& factors) {
    for (const double factor : factors) check_from_to(flag, factor, 1e-6, 1e6);
}

}  // namespace

void check(const RotaryScaling& scaling) {
    const auto check_original = [&](std::string_view flag) {
        check_at_least(flag, scaling.original_length, 1);
        check_at_most(flag, scaling.original_length, i64{1} << 40);
    };
    constexpr std::string_view original = "--rope-scaling-original-max-position-embeddings";
    constexpr double most = 1e6;
    if (scaling.attention_factor != 0)
        check_from_to("--rope-attention-factor", scaling.attention_factor, 1e-3, 1e3);
    switch (scaling.rule) {
        case RotaryRule::none:
            break;
        case RotaryRule::linear:
            check_from_to("--rotary-seq-len-interpolation-factor", scaling.factor, 1e-6, most);
            break;
        case RotaryRule::llama3:
            check_all([&] { check_from_to("--rope-scaling-factor", scaling.factor, 1, most); },
                      [&] { check_original(original); },
                      [&] {
                          check_from_to("--rope-scaling-low-freq-factor", scaling.low_freq_factor,
                                        0, most);
                      },
                      [&] {
                          if (scaling.high_freq_factor <= scaling.low_freq_factor)
                              usage_error("--rope-scaling-high-freq-factor",
                                          "must be above --rope-scaling-low-freq-factor {}, got {}",
                                          scaling.low_freq_factor, scaling.high_freq_factor);
                      });
            break;
        case RotaryRule::yarn:
            check_all([&] { check_from_to("--rotary-scaling-factor", scaling.factor, 1, most); },
                      [&] { check_original("--yarn-original-max-position-embeddings"); },
                      [&] { check_from_to("--yarn-beta-fast", scaling.beta_fast, 1e-6, most); },
                      [&] { check_from_to("--yarn-beta-slow", scaling.beta_slow, 1e-6, most); },
                      [&] { check_from_to("--mscale", scaling.mscale, 0, most); },
                      [&] { check_from_to("--mscale-all-dim", scaling.mscale_all_dim, 0, most); });
            break;
        case RotaryRule::longrope:
            check_all([&] { check_from_to("--rope-scaling-factor", scaling.factor, 1e-6, most); },
                      // Its logarithm is a divisor.
                      [&] { check_at_least(original, scaling.original_length, 2); },
                      [&] { check_original(original); },
                      [&] { check_factors("--rope-short-factor", scaling.short_factors); },
                      [&] { check_factors("--rope-long-factor", scaling.long_factors); });
            break;
    }
}

}  // namespace lm::spec
