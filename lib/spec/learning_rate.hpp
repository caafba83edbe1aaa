// SPDX-License-Identifier: Apache-2.0
// The learning rate as a function of training progress, with the same values as Megatron-LM's
// OptimizerParamScheduler (or, for decay by tokens, of Megatron-DeepSpeed's AnnealingLR). The
// progress of an iteration is the number of samples in the optimizer steps before this iteration.
// So with a warm-up from 0 the first iteration has rate 0. A log line states the rate of the next
// iteration.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/named.hpp"
#include "base/types.hpp"

namespace lm::spec {

enum class DecayStyle { constant, linear, cosine, inverse_square_root, wsd };
inline constexpr std::array decay_styles{
    Named{DecayStyle::constant, "constant"}, Named{DecayStyle::linear, "linear"},
    Named{DecayStyle::cosine, "cosine"},
    Named{DecayStyle::inverse_square_root, "inverse-square-root"}, Named{DecayStyle::wsd, "WSD"}};

enum class AnnealStyle { exponential, linear, cosine, minus_sqrt };  // for the last part of wsd
inline constexpr std::array anneal_styles{
    Named{AnnealStyle::exponential, "exponential"}, Named{AnnealStyle::linear, "linear"},
    Named{AnnealStyle::cosine, "cosine"}, Named{AnnealStyle::minus_sqrt, "minus_sqrt"}};

// The parsers return the style with the name `text`, and throw Error(usage) for an unknown name.
DecayStyle parse_decay_style(std::string_view text);
std::string_view name_of(DecayStyle style);
AnnealStyle parse_anneal_style(std::string_view text);
std::string_view name_of(AnnealStyle style);

struct LearningRate {
    double max = 0;
    double min = 0;   // the rate after the decay; warm-up rates may be lower
    double init = 0;  // --lr-warmup-init
    DecayStyle style = DecayStyle::linear;
    double warmup_samples = 0;
    double decay_samples = 0;  // from the start of the run, warm-up included
    // If this is above 0, the decay counts tokens. The warm-up still counts samples unless
    // warmup_in_tokens is set; warmup_tokens is the number of tokens in warmup_samples.
    double decay_tokens = 0;
    double warmup_tokens = 0;
    bool warmup_in_tokens = false;  // --lr-warmup-tokens; warmup_samples is then 0
    double anneal_samples = 0;      // wsd: the last part of decay_samples
    AnnealStyle anneal = AnnealStyle::exponential;

    // Throws Error(usage) naming the flag of an invalid value.
    void check() const;
    void check_rates() const;  // checks only max, min and init
    // Returns the rate of the iteration after `samples` samples and `tokens` tokens.
    double at(i64 samples, i64 tokens = 0) const;
};

// The highest and the lowest rate of tensors that have their own rates. Their warm-up and decay are
// the warm-up and the decay of a LearningRate.
struct RateRange {
    double max = 0;
    double min = 0;

    void check() const;  // throws Error(usage) naming the flag
};

enum class WeightDecayStyle { constant, linear, cosine };
inline constexpr std::array weight_decay_styles{Named{WeightDecayStyle::constant, "constant"},
                                                Named{WeightDecayStyle::linear, "linear"},
                                                Named{WeightDecayStyle::cosine, "cosine"}};

WeightDecayStyle parse_weight_decay_style(std::string_view text);  // throws Error(usage)

// A weight decay that grows from `start` to `end` over the first `samples` samples of the optimizer
// steps, as in Megatron-LM's OptimizerParamScheduler.
struct GrowingWeightDecay {
    double start = 0;
    double end = 0;
    WeightDecayStyle style = WeightDecayStyle::linear;  // never constant
    double samples = 0;

    double at(i64 samples_done) const;
};

// The rates of one update.
struct UpdateRates {
    double lr = 0;
    std::optional<double> decoupled_lr;  // for the word embedding and the output projection
    std::optional<double> weight_decay;  // replaces AdamWConfig::weight_decay
};

}  // namespace lm::spec
