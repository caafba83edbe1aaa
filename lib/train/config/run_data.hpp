// SPDX-License-Identifier: Apache-2.0
// The data of a run: its datasets and the tokenizer that encoded them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ckpt/format/checkpoint.hpp"
#include "config/data_flags.hpp"
#include "data/sampling/datasets.hpp"
#include "text/tokenizer.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

// The properties of the data's tokenizer that a training needs. A training never tokenizes.
struct Vocabulary {
    std::optional<i64> size;  // number of ids; nullopt: unknown
    std::optional<i64> eod;   // end-of-document id; nullopt: none or unknown
    std::string digest;       // digest of the tokenizer; empty: unknown
};

// Throws Error(usage) unless the flags give either datasets or --mock-data, and not both.
void check_mock(const config::DataFlags& flags);

// Throws Error(usage) with each dataset that does not exist.
void require_datasets(const data::DataPaths& paths);

// Returns the vocabulary of the tokenizer that the flags name. If the flags name no tokenizer,
// returns the vocabulary that the metadata files of the datasets state. For a NullTokenizer, the
// vocabulary has `vocab_size` ids; throws Error(usage) without `vocab_size`. If the named tokenizer
// differs from that of a metadata file, prints a warning; throws Error(usage) when their
// end-of-document ids differ.
Vocabulary find_vocabulary(const config::DataFlags& flags, std::optional<i64> vocab_size);

// Returns the tokenizer that the flags name. If the flags name no tokenizer, returns that of the
// data's metadata files, if it is installed or its files are unchanged; else nullptr.
std::shared_ptr<const text::Tokenizer> tokenizer_of(const RunConfig& config);
// Returns the tokenizer of a step: from its files, else the installed one that it states; nullptr
// if neither is there.
std::shared_ptr<const text::Tokenizer> tokenizer_of(const ckpt::Checkpoint& checkpoint);

// Returns the files of the tokenizer that the steps of the run store, so that programs which read a
// step need no option: those that the flags name; else those that the metadata files of the data
// name, if they are unchanged; else those in `checkpoint`, from which the run starts. Returns none
// for a tokenizer that is installed with lm-utils.
std::vector<ckpt::TokenizerFile> tokenizer_files(const RunConfig& config,
                                                 const std::optional<ckpt::Checkpoint>& checkpoint);

// Returns the same files for a run that starts from no checkpoint.
std::vector<ckpt::TokenizerFile> tokenizer_files(const config::DataFlags& flags);

// Opens the data of the run, and checks that the files fit the flags.
data::DataSets open_data(const RunConfig& config);

}  // namespace lm::train
