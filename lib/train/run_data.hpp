// SPDX-License-Identifier: Apache-2.0
// The data of a run: its datasets and the tokenizer that encoded them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/data_flags.hpp"
#include "data/sampling/datasets.hpp"
#include "text/tokenizer.hpp"
#include "train/resolve/run_config.hpp"

namespace lm::train {

// The properties of the tokenizer that a training needs. A training never tokenizes.
struct Vocabulary {
    std::optional<i64> size;
    std::optional<i64> eod;
    std::string digest;
};

// Throws Error(usage) unless exactly one of the two is given: datasets or --mock-data.
void check_mock(const config::DataFlags& flags);

// Returns the vocabulary of the tokenizer that the flags name. If the flags name none, returns the
// vocabulary of the tokenizer in the metadata files of the datasets. A NullTokenizer has
// `vocab_size` ids. Warns when the two tokenizers differ. Throws Error(usage) when their
// end-of-document tokens differ.
Vocabulary find_vocabulary(const config::DataFlags& flags, std::optional<i64> vocab_size);

// Returns the tokenizer of the run's data: the tokenizer that the flags name; if they name none,
// the tokenizer of the data's metadata file; nullptr if this program does not have that tokenizer.
std::shared_ptr<const text::Tokenizer> tokenizer_of(const RunConfig& config);

// Opens the data of the run, and checks that the files fit the flags.
data::DataSets open_data(const RunConfig& config);

}  // namespace lm::train
