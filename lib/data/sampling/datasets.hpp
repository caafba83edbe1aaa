// SPDX-License-Identifier: Apache-2.0
// Creates sample sources from the data flags of a command line: opens the datasets, splits them,
// and checks vocabulary and sizes before it allocates much memory.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/named.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/sampling/data_paths.hpp"
#include "data/sampling/megatron_index.hpp"
#include "data/sampling/sample_source.hpp"
#include "data/sampling/split.hpp"

namespace lm::data {

// stateless: the default, without an index. megatron: bit-identical to Megatron-LM (2023 and
// later). megatron_deepspeed: bit-identical to BigScience's Megatron-DeepSpeed and Megatron-LM up
// to 2.5. The two Megatron orders differ in the rounding of splits, in the threshold for shuffling
// the last epoch separately, and in blends.
enum class DataOrder { stateless, megatron, megatron_deepspeed };
inline constexpr std::array data_orders{Named{DataOrder::stateless, "stateless"},
                                        Named{DataOrder::megatron, "megatron"},
                                        Named{DataOrder::megatron_deepspeed, "megatron-deepspeed"}};
// Throws Error(usage) for an unknown name.
DataOrder parse_data_order(std::string_view text);
std::string_view name_of(DataOrder order);

struct DataConfig {
    DataPaths paths;
    std::string split;  // --split
    i64 seq_length = 0;
    i64 vocab_size = 0;  // vocabulary of the model, without padding; all ids must be smaller
    u64 seed = 0;
    // The number of samples that each part will read. A part with 0 samples is not opened.
    // train_samples must be > 0; it is the value of --train-samples, or iterations x global batch.
    // Megatron's orders depend on these numbers.
    i64 train_samples = 0;
    i64 valid_samples = 0;  // for each validation set
    i64 test_samples = 0;
    // True when --split was not given. A test set smaller than one sample is then omitted.
    bool test_optional = false;
    DataOrder order = DataOrder::stateless;
    IndexCache index_cache;  // for Megatron's orders
    int n_threads = 1;       // to build the index of Megatron's orders
};

struct NamedSource {
    std::string name;  // in log lines: "validation", "test", or the name of a group
    std::unique_ptr<SampleSource> source;
};

struct DataSets {
    std::unique_ptr<SampleSource> train;
    std::vector<NamedSource> valid;  // empty if the flags name no such data or need no samples
    std::vector<NamedSource> test;
};

// Opens all datasets. Throws Error(usage) when the flags contradict each other, or when they
// contradict the data: a part is empty, has too few tokens or samples, or has a vocabulary larger
// than the model's. Throws Error(failure) for corrupt files.
DataSets open_data(const DataConfig& config);

// Returns every prefix in `paths`.
std::vector<std::string> data_prefixes(const DataPaths& paths);

// Returns the datasets of the training set, in the order of the flags.
std::vector<DataPath> training_paths(const DataPaths& paths);

// The facts that the metadata files of several datasets have in common.
struct DataFacts {
    TokenizerFacts tokenizer;
    std::optional<i64> eod_id;
    bool appended_eod = false;  // true when the documents of all datasets end with eod_id
};
// Reads the metadata files of these datasets. Returns nullopt when a dataset has no metadata file.
// Throws Error(usage) when two datasets were encoded with different tokenizers.
std::optional<DataFacts> data_facts(const std::vector<std::string>& prefixes);

// Returns one line per dataset for the log: "train: P documents [0, 949) 1.2M tokens, weight
// 0.6000, 1.50 epochs in 12000 samples, all of it seen after 13334 samples of the set". "all of it
// ..." is omitted for one epoch or less.
std::vector<std::string> describe_use(std::string_view name, const SampleSource& source,
                                      i64 n_samples);

}  // namespace lm::data
