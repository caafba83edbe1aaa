// SPDX-License-Identifier: Apache-2.0
// From the data flags of a command line to sample sources: opens the datasets, splits them, checks
// that they fit the model, and says so before anything big is allocated. Knows no model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/sample_source.hpp"
#include "data/side_file.hpp"
#include "data/split.hpp"

namespace lm::data {

struct DataConfig {
    std::vector<std::string> data_path;  // --data-path
    std::string split = "969,30,1";
    SplitRounding split_rounding = SplitRounding::nvidia;
    i64 seq_length = 0;
    i64 vocab_size = 0;  // the model's, unpadded: ids must lie below it
    u64 seed = 1234;
    // Samples that will be asked for; a part with 0 is not opened. train must be > 0.
    i64 train_samples = 0;
    i64 valid_samples = 0;
    i64 test_samples = 0;
};

struct NamedSource {
    std::string name;  // "valid" or "validation" sets of their own name: what the log line says
    std::unique_ptr<SampleSource> source;
};

struct DataSets {
    std::unique_ptr<SampleSource> train;
    std::vector<NamedSource> valid;  // empty: --split gives nothing to it, or nothing is asked for
    std::vector<NamedSource> test;
};

// Throws Error(usage) for flags that do not fit the data (an empty part, too few tokens, a side
// file's vocabulary above the model's), Error(failure) for damaged files; each names its object.
DataSets open_data(const DataConfig& config);

// What the side files of these datasets agree on; nullopt when one of them has none. Throws
// Error(usage) when two were made by different tokenizers.
struct DataFacts {
    TokenizerFacts tokenizer;
    std::optional<i64> eod_id;
    bool appended_eod = false;  // by all of them
};
std::optional<DataFacts> data_facts(const std::vector<std::string>& prefixes);

}  // namespace lm::data
