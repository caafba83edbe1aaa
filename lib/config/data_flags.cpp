// SPDX-License-Identifier: Apache-2.0
#include "config/data_flags.hpp"

#include "base/error.hpp"
#include "config/tokenizer_flags.hpp"
#include "data/sampling/datasets.hpp"

namespace lm::config {
namespace {

void contradict(std::string_view file_option, std::string_view option) {
    usage_error(file_option, "cannot be combined with {}: give one of the two", option);
}

void read_groups(std::string_view option, std::vector<std::string>& groups,
                 const std::string& file) {
    if (file.empty()) return;
    const std::string file_option = std::string(option) + "-path";
    if (!groups.empty()) contradict(file_option, option);
    groups = data::read_group_file(file_option, file);
}

}  // namespace

void read_data_files(DataFlags& flags) {
    data::DataPaths& paths = flags.paths;
    read_groups("--train-weighted-split-paths", paths.train_groups, flags.train_groups_file);
    read_groups("--valid-weighted-split-paths", paths.valid_groups, flags.valid_groups_file);
    read_groups("--test-weighted-split-paths", paths.test_groups, flags.test_groups_file);
    if (!flags.blend_file.empty()) {
        if (!paths.data_path.empty()) contradict("--data-args-path", "--data-path");
        paths.data_path = data::read_blend_file("--data-args-path", flags.blend_file);
    }
    if (flags.split_file.empty()) return;
    if (!paths.train_path.empty() || !paths.valid_path.empty() || !paths.test_path.empty()) {
        contradict("--per-split-data-args-path", "--train-data-path");
    }
    data::read_split_file(flags.split_file, paths);
}

const Fields<data::DataPaths>& data_path_fields() {
    using S = data::DataPaths;
    static const FieldsIn<S, Block::validation> fields = {
        {.option = "--data-path",
         .member = &S::data_path,
         .metavar = "[WEIGHT] PREFIX ...",
         .help = "tokens to train on: the PREFIX of the .bin and .idx pair of lm-preprocess, "
                 "or several with their weights",
         .block = Block::training},
        {.option = "--train-data-path",
         .member = &S::train_path,
         .metavar = "[WEIGHT] PREFIX ...",
         .help = "whole datasets for training, instead of --data-path",
         .block = Block::training},
        {.option = "--valid-data-path",
         .member = &S::valid_path,
         .metavar = "[WEIGHT] PREFIX ...",
         .help = "whole datasets for validation"},
        {.option = "--test-data-path",
         .member = &S::test_path,
         .metavar = "[WEIGHT] PREFIX ...",
         .help = "whole datasets for the test at the end of the training"},
        {.option = "--train-weighted-split-paths",
         .member = &S::train_groups,
         .metavar = "GROUP",
         .help =
             "one group \"NAME: WEIGHT FROM:TO PREFIX, ...\" to train on, instead of --data-path",
         .block = Block::training},
        {.option = "--valid-weighted-split-paths",
         .member = &S::valid_groups,
         .metavar = "GROUP",
         .help = "groups of datasets for validation, each evaluated and logged under its own name"},
        {.option = "--test-weighted-split-paths",
         .member = &S::test_groups,
         .metavar = "GROUP",
         .help = "groups of datasets for the test at the end of the training"},
    };
    return fields;
}

const Fields<DataFlags>& group_file_fields() {
    using S = DataFlags;
    static const FieldsIn<S, Block::none> fields = {
        {.option = "--train-weighted-split-paths-path",
         .member = &S::train_groups_file,
         .metavar = "FILE",
         .help = "file with the group of --train-weighted-split-paths"},
        {.option = "--valid-weighted-split-paths-path",
         .member = &S::valid_groups_file,
         .metavar = "FILE",
         .help = "file with the groups for validation, each between double quotes"},
        {.option = "--test-weighted-split-paths-path",
         .member = &S::test_groups_file,
         .metavar = "FILE",
         .help = "file with the groups for the test"},
        {.option = "--data-args-path",
         .member = &S::blend_file,
         .metavar = "FILE",
         .help = "file with the values of --data-path"},
        {.option = "--per-split-data-args-path",
         .member = &S::split_file,
         .metavar = "FILE",
         .help = "JSON file with the keys train, valid and test: the values of --train-data-path, "
                 "--valid-data-path and --test-data-path, as arrays or strings"},
    };
    return fields;
}

const Fields<DataFlags>& data_order_fields() {
    using S = DataFlags;
    static const FieldsIn<S, Block::none, OnResume::samples> fields = {
        {.option = "--data-order",
         .member = &S::order,
         .help =
             "order of the samples: stateless (computed without an index), megatron (the order of "
             "Megatron-LM) or megatron-deepspeed (the order of BigScience's Megatron-DeepSpeed)",
         .choices = names_in(data::data_orders),
         .block = Block::training},
        {.option = "--split",
         .member = &S::split,
         .metavar = "A,B,C",
         .help = "shares of the documents of --data-path for training, validation and test",
         .block = Block::training},
        {.option = "--data-cache-path",
         .member = &S::cache_path,
         .metavar = "DIR",
         .help = "directory in which the processes of a node share the index of a Megatron order; "
                 "default: a directory of this user under TMPDIR for large indexes; none: each "
                 "process has its own index in memory"},
        {.option = "--mock-data",
         .member = &S::mock_data,
         .help = "train on random tokens, to measure speed without data"},
    };
    return fields;
}

const Fields<DocumentFlags>& document_fields() {
    using S = DocumentFlags;
    static const FieldsIn<S, Block::training> fields = {
        {.option = "--reset-position-ids",
         .member = &S::reset_position_ids,
         .help = "restart positions at 0 after each end-of-document token"},
        {.option = "--reset-attention-mask",
         .member = &S::reset_attention_mask,
         .help = "stop attention at each end-of-document token"},
        {.option = "--dataloader-inter-document-masking",
         .member = &S::inter_document_masking,
         .help = "restart positions and stop attention at each document of the data's index, so "
                 "that the data needs no end-of-document tokens"},
        {.option = "--eod-mask-loss",
         .member = &S::eod_mask_loss,
         .help = "exclude predictions at end-of-document input tokens from the loss"},
        {.option = "--calculate-per-token-loss",
         .member = &S::per_token_loss,
         .help =
             "divide the gradient by the number of unmasked tokens in the batch; default: by the "
             "number of unmasked tokens in each micro-batch, then by the number of micro-batches"},
    };
    return fields;
}

void add_data_options(cli::Options& options, DataFlags& flags, DocumentFlags& documents) {
    options.group("Data");
    declare(options, data_path_fields(), flags.paths);
    declare(options, group_file_fields(), flags);
    declare(options, data_order_fields(), flags);
    add_tokenizer_options(options, flags.tokenizer,
                          "also NullTokenizer (ids below --vocab-size, the last of which ends a "
                          "document); default: vocabulary size and end-of-document token of the "
                          "data's metadata file");
    declare(options, document_fields(), documents);
}

}  // namespace lm::config
