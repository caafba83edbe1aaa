// SPDX-License-Identifier: Apache-2.0
#include "spec/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/problem_list.hpp"

namespace lm::spec {
namespace {

double half_cosine(double ratio) {
    return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0);
}

double anneal_coefficient(AnnealStyle style, double ratio) {
    switch (style) {
        case AnnealStyle::linear:
            return 1.0 - ratio;
        case AnnealStyle::cosine:
            return half_cosine(ratio);
        case AnnealStyle::exponential:
            return 2.0 * std::pow(0.5, ratio) - 1.0;
        case AnnealStyle::minus_sqrt:
            return 1.0 - std::sqrt(ratio);
    }
    return 0.0;
}

}  // namespace

DecayStyle parse_decay_style(std::string_view text) {
    if (const auto style = value_in(decay_styles, text)) return *style;
    usage_error("--lr-decay-style",
                "expected constant, linear, cosine, inverse-square-root or WSD, got '{}'", text);
}

std::string_view name_of(DecayStyle style) {
    return name_in(decay_styles, style);
}

AnnealStyle parse_anneal_style(std::string_view text) {
    if (const auto style = value_in(anneal_styles, text)) return *style;
    usage_error("--lr-wsd-decay-style",
                "expected linear, cosine, exponential or minus_sqrt, got '{}'", text);
}

std::string_view name_of(AnnealStyle style) {
    return name_in(anneal_styles, style);
}

void LearningRate::check_rates() const {
    check_all([&] { check_at_least("--min-lr", min, 0); },
              [&] {
                  if (!(max >= min)) usage_error("--lr", "{} is below --min-lr {}", max, min);
                  if (!(init <= max))
                      usage_error("--lr-warmup-init", "{} is above --lr {}", init, max);
              });
}

void LearningRate::check() const {
    check_rates();
    check_at_least("--lr-warmup-samples", warmup_samples, 0);
    if (decay_tokens > 0) {
        if (style == DecayStyle::wsd || style == DecayStyle::inverse_square_root) {
            usage_error("--lr-decay-tokens",
                        "needs --lr-decay-style linear, cosine or constant, not {}",
                        name_of(style));
        }
        if (warmup_tokens >= decay_tokens) {
            usage_error("--lr-decay-tokens",
                        "the warm-up takes {:.0f} tokens, but the learning rate decays until token "
                        "{:.0f}: shorten the warm-up, or lengthen the training or the decay",
                        warmup_tokens, decay_tokens);
        }
        return;
    }
    if (style == DecayStyle::constant) return;
    check_above("--lr-decay-samples", decay_samples, 0);
    if (warmup_samples >= decay_samples) {
        usage_error("--lr-warmup-samples",
                    "the warm-up takes {:.0f} samples, but the learning rate decays until sample "
                    "{:.0f}: shorten the warm-up, or lengthen the training or the decay",
                    warmup_samples, decay_samples);
    }
    if (style == DecayStyle::wsd && (anneal_samples <= 0 || anneal_samples > decay_samples)) {
        usage_error("--lr-wsd-decay-samples",
                    "{:.0f} samples are not between 1 and the {:.0f} samples of the whole decay",
                    anneal_samples, decay_samples);
    }
}

double LearningRate::at(i64 samples, i64 tokens) const {
    const double n = static_cast<double>(samples);
    if (warmup_samples > 0 && n <= warmup_samples) return init + (max - init) * n / warmup_samples;
    const double t = static_cast<double>(tokens);
    if (warmup_in_tokens && warmup_tokens > 0 && t <= warmup_tokens)
        return init + (max - init) * t / warmup_tokens;
    if (style == DecayStyle::constant) return max;

    const bool by_tokens = decay_tokens > 0;
    const double done = by_tokens ? t : n;
    const double end = by_tokens ? decay_tokens : decay_samples;
    const double start = by_tokens ? warmup_tokens : warmup_samples;
    if (done > end) return min;
    if (style == DecayStyle::inverse_square_root) {
        const double warmup = std::max(warmup_samples, 1.0);
        return std::max(min, max * std::sqrt(warmup) / std::sqrt(std::max(n, 1.0)));
    }
    const double ratio = std::max(0.0, (done - start) / (end - start));
    double coefficient = 1.0;
    if (style == DecayStyle::linear) {
        coefficient = 1.0 - ratio;
    } else if (style == DecayStyle::cosine) {
        coefficient = half_cosine(ratio);
    } else if (n > decay_samples - anneal_samples) {
        coefficient =
            anneal_coefficient(anneal, (n - (decay_samples - anneal_samples)) / anneal_samples);
    }
    return min + coefficient * (max - min);
}

void RateRange::check() const {
    check_all([&] { check_at_least("--decoupled-min-lr", min, 0); },
              [&] {
                  if (!(max >= min))
                      usage_error("--decoupled-lr",
                                  "{} is below the lowest rate {}: give a larger value, or a "
                                  "smaller --decoupled-min-lr",
                                  max, min);
              });
}

WeightDecayStyle parse_weight_decay_style(std::string_view text) {
    if (const auto style = value_in(weight_decay_styles, text)) return *style;
    usage_error("--weight-decay-incr-style", "expected constant, linear or cosine, got '{}'", text);
}

double GrowingWeightDecay::at(i64 samples_done) const {
    const double ratio =
        samples > 0 ? std::min(1.0, static_cast<double>(samples_done) / samples) : 1.0;
    const double grown = style == WeightDecayStyle::cosine ? half_cosine(1.0 - ratio) : ratio;
    return start + grown * (end - start);
}

}  // namespace lm::spec
