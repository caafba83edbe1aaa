// SPDX-License-Identifier: Apache-2.0
// The frequencies of rotary positions (Su et al. 2021, "RoFormer"), and the published rules that
// scale them for a longer context.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/named.hpp"
#include "base/types.hpp"

namespace lm::spec {

// none:     base^(-2i/E) for pair i of the E rotated elements of a head
// linear:   divided by the factor (Chen et al. 2023, "Extending context window of large language
//           models via positional interpolation")
// llama3:   slow frequencies divided (Grattafiori et al. 2024, "The Llama 3 herd of models")
// yarn:     slow frequencies divided, attention scaled (Peng et al. 2023, "YaRN")
// longrope: each frequency divided by a factor of its own (Ding et al. 2024, "LongRoPE")
enum class RotaryRule { none, linear, llama3, yarn, longrope };
inline constexpr std::array rotary_rules{
    Named{RotaryRule::none, "none"}, Named{RotaryRule::linear, "linear"},
    Named{RotaryRule::llama3, "llama3"}, Named{RotaryRule::yarn, "yarn"},
    Named{RotaryRule::longrope, "longrope"}};

std::string_view name_of(RotaryRule value);

// A rule and its settings. Members that the rule does not use have their defaults.
struct RotaryScaling {
    RotaryRule rule = RotaryRule::none;
    double factor = 0;                  // longer context / original context
    i64 original_length = 0;            // original context, tokens: llama3, yarn, longrope
    double low_freq_factor = 1;         // llama3: turns in the original context, up to which a
    double high_freq_factor = 4;        // frequency is divided, and from which it is kept
    double beta_fast = 32;              // yarn: turns from which a frequency is kept, and up to
    double beta_slow = 1;               // which it is divided
    bool truncate = true;               // yarn: round the numbers of these two frequencies
    double mscale = 1;                  // yarn: attention_factor() is the quotient of
    double mscale_all_dim = 0;          // 0.1 * mscale * ln(factor) + 1 and the same of this
    double attention_factor = 0;        // yarn, longrope: attention_factor(); 0: from the others
    std::vector<double> short_factors;  // longrope: [E/2], up to the original context
    std::vector<double> long_factors;   // longrope: [E/2], beyond it
    friend bool operator==(const RotaryScaling&, const RotaryScaling&) = default;
};

// Returns the scaling by `rule` with its usual settings: those of Llama 3.1 or Megatron-LM.
RotaryScaling usual_scaling(RotaryRule rule);

// Returns the factor of all cosines and sines. Scores of attention have its square.
double attention_factor(const RotaryScaling& scaling);

// The frequencies of a layer.
struct RotaryFrequencies {
    double base = 10000.0;
    RotaryScaling scaling;
    double query_beta = 0;  // query_scale(); 0: none
    friend bool operator==(const RotaryFrequencies&, const RotaryFrequencies&) = default;
};

// Returns whether sequences beyond the original context have other frequencies.
inline bool depends_on_length(const RotaryFrequencies& rotary) {
    return rotary.scaling.rule == RotaryRule::longrope;
}

// Returns [E/2], the angle between two positions of each pair of the E = rotary_dim rotated
// elements of a head, in sequences of `length` tokens. Formulas: modeling_rope_utils.py of
// transformers 5.24, which Megatron-LM's yarn equals.
std::vector<double> frequencies(const RotaryFrequencies& rotary, i64 rotary_dim, i64 length);

// Returns the factor of a query at `position` (Llama 4's attention temperature, which starts at the
// original context): 1 + query_beta * ln(1 + floor(position / original_length)).
double query_scale(const RotaryFrequencies& rotary, i64 position);

// Throws Error(usage) naming the flag of an invalid value.
void check(const RotaryScaling& scaling);

}  // namespace lm::spec
