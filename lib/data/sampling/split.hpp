// SPDX-License-Identifier: Apache-2.0
// --split 969,30,1: divides the sequences of a dataset into training, validation and test. There
// are two roundings, one for each family of Megatron versions. They give different splits for many
// numbers of sequences.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace lm::data {

enum class SplitPart { train = 0, valid = 1, test = 2 };
std::string_view name_of(SplitPart part);  // "train", "valid", "test"

// nvidia: the rounding of Megatron-LM since 2023. Each boundary is round(cumulative fraction * n).
// bigscience: the rounding of Megatron-LM up to 2.5 and Megatron-DeepSpeed. Each size is rounded.
// If the sum of the sizes differs from n, the difference is subtracted from every boundary except
// the first.
enum class SplitRounding { nvidia, bigscience };

// Sequences [begin, end); an empty range has end <= begin.
struct SequenceRange {
    i64 begin = 0;
    i64 end = 0;
    i64 size() const { return end > begin ? end - begin : 0; }
};

struct Split {
    std::array<double, 3> weights{};  // train, valid, test; as given, not normalized
    bool has(SplitPart part) const { return weights[static_cast<size_t>(part)] > 0; }
};

// Parses "949,50,1", "98,2" or "100"; '/' may stand for ','. Throws Error(usage) naming --split.
Split parse_split(std::string_view text);

// Returns the ranges of training, validation and test in `n` sequences, equal to the ranges that
// Megatron's Python code computes.
std::array<SequenceRange, 3> split_ranges(const Split& split, i64 n, SplitRounding rounding);

}  // namespace lm::data
