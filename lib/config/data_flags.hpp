// SPDX-License-Identifier: Apache-2.0
// The flags of the data: datasets, their splits and order, tokenizer, and document boundaries.
#pragma once

#include <string>
#include <vector>

#include "config/field.hpp"
#include "data/sampling/data_paths.hpp"
#include "text/choice/tokenizer_choice.hpp"

namespace lm::config {

struct DataFlags {
    data::DataPaths paths;
    std::string train_groups_file, valid_groups_file, test_groups_file;
    std::string blend_file, split_file;
    cli::WithDefault<std::string> split{"969,30,1"};
    std::string order = "stateless";
    std::string cache_path;
    text::TokenizerChoice tokenizer;
    bool mock_data = false;
};

// The flags for document boundaries within a sample, and for the weights of tokens in the loss.
// Except for inter_document_masking, each document ends with an end-of-document token.
struct DocumentFlags {
    bool reset_position_ids = false;    // positions restart at 0 after each end-of-document token
    bool reset_attention_mask = false;  // attention does not reach earlier documents
    // Both, at the documents of the data's index instead of the token.
    bool inter_document_masking = false;
    bool eod_mask_loss = false;   // the loss excludes predictions at end-of-document input tokens
    bool per_token_loss = false;  // gradients weight all unmasked tokens of a step equally
};

// Reads the files that name datasets, and stores the names in flags.paths. Throws Error(usage) when
// a file and a flag name datasets for the same purpose, such as --data-args-path and --data-path.
void read_data_files(DataFlags& flags);

const Fields<data::DataPaths>& data_path_fields();
const Fields<DataFlags>& group_file_fields();
const Fields<DataFlags>& data_order_fields();
const Fields<DocumentFlags>& document_fields();

// Declares the options of the tables above and the tokenizer options, under the heading "Data".
void add_data_options(cli::Options& options, DataFlags& flags, DocumentFlags& documents);

}  // namespace lm::config
