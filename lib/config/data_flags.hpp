// SPDX-License-Identifier: Apache-2.0
// The flags of the data: datasets, their splits and order, tokenizer, and document boundaries.
#pragma once

#include <string>
#include <vector>

#include "config/field.hpp"
#include "text/tokenizer_choice.hpp"

namespace lm::config {

struct DataFlags {
    std::vector<std::string> data_path;
    std::string split = "969,30,1";
    std::string order = "stateless";
    std::string cache_path;
    std::vector<std::string> train_path, valid_path, test_path;
    std::vector<std::string> train_groups, valid_groups, test_groups;
    std::string train_groups_file, valid_groups_file, test_groups_file;
    text::TokenizerChoice tokenizer;
    bool mock_data = false;
    bool reset_position_ids = false;
    bool reset_attention_mask = false;
    bool eod_mask_loss = false;
};

const Fields<DataFlags>& data_fields();
const Fields<DataFlags>& document_fields();

// Declares the options of data_fields() and document_fields() and the tokenizer options, under the
// heading "Data".
void add_data_options(cli::Options& options, DataFlags& flags);

}  // namespace lm::config
