// SPDX-License-Identifier: Apache-2.0
// The ways to name data on a command line: a blend (--data-path P, or W P W P ...), and the
// weighted groups of BigScience's scripts, "NAME: W A:B PREFIX, W A:B PREFIX", each a set of its
// own. Parsing opens no dataset.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/sampling/split.hpp"

namespace lm::data {

// Part of the documents of one dataset, as fractions of their number.
struct Fraction {
    double begin = 0;
    double end = 1;
};

// Both ends rounded half to even, as BigScience's START:END.
SequenceRange documents_of(const Fraction& fraction, i64 n_documents);

struct DataPath {
    std::string prefix;
    double weight = 0;                 // positive when the list has weights
    std::optional<Fraction> fraction;  // of weighted groups
};

struct PathGroup {
    std::string name;  // empty for a blend without a name
    std::vector<DataPath> paths;
    bool weighted = false;
};

// P [P ...] or W P [W P ...], as Megatron tells them apart: an even number of words of which every
// other one is a number has weights. Throws Error(usage) naming `option`.
PathGroup parse_blend(std::string_view option, const std::vector<std::string>& words);

// "NAME: W A:B PREFIX, W A:B PREFIX". Throws Error(usage) naming `option`.
PathGroup parse_group(std::string_view option, std::string_view text);

// The groups of a --...-weighted-split-paths-path file: each between double quotes, or the whole
// file when it has none. Throws Error(failure) when it cannot be read, Error(usage) when empty.
std::vector<std::string> read_group_file(std::string_view option, const std::string& path);

}  // namespace lm::data
