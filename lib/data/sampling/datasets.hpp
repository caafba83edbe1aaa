// SPDX-License-Identifier: Apache-2.0
// From the data flags of a command line to sample sources: opens the datasets, splits them, checks
// that they fit the model, and says so before anything big is allocated. Knows no model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/indexed/dataset_metadata.hpp"
#include "data/sampling/data_paths.hpp"
#include "data/sampling/index_cache.hpp"
#include "data/sampling/sample_source.hpp"
#include "data/sampling/split.hpp"

namespace lm::data {

// stateless: our default, nothing to build. megatron: bit-identical to Megatron-LM (2023 and
// later); megatron_deepspeed: to BigScience's Megatron-DeepSpeed and Megatron-LM up to 2.5. The
// latter two differ in split rounding, in when the last epoch is shuffled apart, and in blends.
enum class DataOrder { stateless, megatron, megatron_deepspeed };
DataOrder parse_data_order(std::string_view text);  // "stateless", "megatron", "megatron-deepspeed"
std::string_view name_of(DataOrder order);

struct DataConfig {
    std::vector<std::string> data_path;  // --data-path, cut by --split
    std::string split = "969,30,1";
    i64 seq_length = 0;
    i64 vocab_size = 0;  // the model's, unpadded: ids must lie below it
    u64 seed = 1234;
    // Samples that will be asked for; a part with 0 is not opened. train must be > 0. Megatron's
    // orders depend on it: what --train-samples says, or iterations x global batch.
    i64 train_samples = 0;
    i64 valid_samples = 0;  // of each validation set
    i64 test_samples = 0;
    // --split is the default one: where it leaves the test set too little for one sequence, there
    // is no test set.
    bool test_optional = false;
    DataOrder order = DataOrder::stateless;
    IndexCache index_cache;  // of Megatron's orders
    int n_threads = 1;       // that build them
    // Instead of data_path, without a split: --train-data-path, --valid-data-path...
    std::vector<std::string> train_path, valid_path, test_path;
    // Or groups "NAME: W A:B PREFIX, ...": --train-weighted-split-paths (one), --valid-... (each a
    // set of its own name).
    std::vector<std::string> train_groups, valid_groups, test_groups;
};

struct NamedSource {
    std::string name;  // "validation", "test", or a group's own: what log lines say
    std::unique_ptr<SampleSource> source;
};

struct DataSets {
    std::unique_ptr<SampleSource> train;
    std::vector<NamedSource> valid;  // empty: nothing is given to it, or nothing is asked for
    std::vector<NamedSource> test;
};

// Throws Error(usage) for flags that do not fit each other or the data (an empty part, too few
// tokens, too few samples, a side file's vocabulary above the model's), Error(failure) for damaged
// files; each names its object.
DataSets open_data(const DataConfig& config);

// Every prefix that the flags name, for data_facts.
std::vector<std::string> data_prefixes(const DataConfig& config);

// The datasets that are trained on, in the order of the flags.
std::vector<DataPath> training_paths(const DataConfig& config);

// What the side files of these datasets agree on; nullopt when one of them has none. Throws
// Error(usage) when two were made by different tokenizers.
struct DataFacts {
    TokenizerFacts tokenizer;
    std::optional<i64> eod_id;
    bool appended_eod = false;  // by all of them
};
std::optional<DataFacts> data_facts(const std::vector<std::string>& prefixes);

// One line a dataset for the plan: "train: P documents [0, 949) 1.2M tokens, weight 0.6000, 1.50
// epochs in 12000 samples, seen whole after 8000 samples of the set" (the last when there is more
// than one epoch).
std::vector<std::string> describe_use(std::string_view name, const SampleSource& source,
                                      i64 n_samples);

}  // namespace lm::data
