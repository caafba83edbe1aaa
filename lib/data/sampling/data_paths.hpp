// SPDX-License-Identifier: Apache-2.0
// The options that name datasets, and their parser: a blend (--data-path P, or W P W P ... with
// weights W and prefixes P), and the weighted groups of BigScience's scripts, "NAME: W A:B PREFIX,
// W A:B PREFIX", where A:B is a range of the documents. Each group is a separate set. The parser
// opens no dataset.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/sampling/split.hpp"

namespace lm::data {

// The words of the options that name datasets. The data comes either from data_path, which --split
// divides into parts, or from the paths and groups of each part, which are used whole.
struct DataPaths {
    std::vector<std::string> data_path;                          // --data-path
    std::vector<std::string> train_path, valid_path, test_path;  // --train-data-path, ...
    // --train-weighted-split-paths (one group), --valid-... and --test-... (each group is a set
    // with its own name): "NAME: W A:B PREFIX, ...".
    std::vector<std::string> train_groups, valid_groups, test_groups;

    // Returns true when no option names training data.
    bool empty() const { return data_path.empty() && train_path.empty() && train_groups.empty(); }
};

// A range of the documents of one dataset, as fractions of their number.
struct Fraction {
    double begin = 0;
    double end = 1;
};

// Returns the documents in `fraction`. Rounds both ends half to even, as BigScience does for
// START:END.
SequenceRange documents_of(const Fraction& fraction, i64 n_documents);

struct DataPath {
    std::string prefix;
    double weight = 0;                 // positive in a weighted group, else 0
    std::optional<Fraction> fraction;  // set in weighted groups
};

struct PathGroup {
    std::string option;  // the flag that gives the group, for messages
    std::string name;    // empty for a blend without a name
    std::vector<DataPath> paths;
    bool weighted = false;
};

// Parses P [P ...] or W P [W P ...]. As in Megatron, the words have weights when their number is
// even and the 1st, 3rd, 5th, ... are numbers. Throws Error(usage) naming `option`.
PathGroup parse_blend(std::string_view option, const std::vector<std::string>& words);

// Parses "NAME: W A:B PREFIX, W A:B PREFIX". Throws Error(usage) naming `option`.
PathGroup parse_group(std::string_view option, std::string_view text);

// Reads the groups of a --...-weighted-split-paths-path file. Each group is between double quotes;
// a file without quotes is one group. Throws Error(failure) when the file cannot be read,
// Error(usage) when it is empty or a quote is not closed.
std::vector<std::string> read_group_file(std::string_view option, const std::string& path);

// Reads the words of a blend from a file (--data-args-path). Throws Error(failure) when the file
// cannot be read, Error(usage) when it is empty.
std::vector<std::string> read_blend_file(std::string_view option, const std::string& path);

// Reads train_path, valid_path and test_path from a JSON file with the keys "train", "valid" and
// "test" (--per-split-data-args-path). The value of each key is an array with the words of a blend,
// a string with these words, or null. Throws Error(failure) when the file is not of this form.
void read_split_file(const std::string& path, DataPaths& paths);

}  // namespace lm::data
