// SPDX-License-Identifier: Apache-2.0
#include "data/datasets.hpp"

#include "base/error.hpp"
#include "base/rng.hpp"
#include "data/window_source.hpp"

namespace lm::data {
namespace {

constexpr std::string_view path_option = "--data-path";

std::shared_ptr<const IndexedDataset> open_checked(const std::string& prefix, i64 vocab_size) {
    auto dataset = std::make_shared<const IndexedDataset>(IndexedDataset::open(prefix));
    const std::optional<SideFile> side = read_side_file(*dataset);
    if (side && side->tokenizer.vocab_size > vocab_size) {
        usage_error(side_path(prefix),
                    "the data was made with a vocabulary of {} ids, the model has {}: set "
                    "--vocab-size or name the tokenizer of the data",
                    side->tokenizer.vocab_size, vocab_size);
    }
    return dataset;
}

std::string describe(Part part, const std::string& prefix) {
    return fmt::format("the {} split of {}", name_of(part), prefix);
}

std::unique_ptr<SampleSource> open_part(const std::shared_ptr<const IndexedDataset>& dataset,
                                        const DataConfig& config, Part part) {
    const Range range = split_ranges(parse_split(config.split), dataset->n_sequences(),
                                     config.split_rounding)[static_cast<size_t>(part)];
    if (range.size() == 0) {
        usage_error("--split", "{} leaves no document of {} ({} documents) for the {} split",
                    config.split, dataset->prefix(), dataset->n_sequences(), name_of(part));
    }
    const u64 key = stream_key(config.seed, fmt::format("data order {} 0", name_of(part)));
    return std::make_unique<WindowSource>(TokenRange{dataset, range, config.vocab_size},
                                          config.seq_length, key,
                                          describe(part, dataset->prefix()));
}

}  // namespace

DataSets open_data(const DataConfig& config) {
    if (config.data_path.empty()) usage_error(path_option, "no data given");
    if (config.data_path.size() > 1) {
        usage_error(path_option, "takes one dataset: PREFIX of PREFIX.bin and PREFIX.idx");
    }
    const Split split = parse_split(config.split);
    const auto dataset = open_checked(config.data_path.front(), config.vocab_size);
    DataSets sets;
    sets.train = open_part(dataset, config, Part::train);
    if (config.valid_samples > 0 && split.has(Part::valid)) {
        sets.valid.push_back({"validation", open_part(dataset, config, Part::valid)});
    }
    if (config.test_samples > 0 && split.has(Part::test)) {
        sets.test.push_back({"test", open_part(dataset, config, Part::test)});
    }
    return sets;
}

std::optional<DataFacts> data_facts(const std::vector<std::string>& prefixes) {
    std::optional<DataFacts> facts;
    const std::string* first = nullptr;
    for (const std::string& prefix : prefixes) {
        const std::optional<SideFile> side = read_side_file(prefix);
        if (!side) return std::nullopt;
        if (!facts) {
            facts = DataFacts{side->tokenizer, side->eod_id, side->appended_eod};
            first = &prefix;
            continue;
        }
        if (facts->tokenizer.digest != side->tokenizer.digest) {
            usage_error(path_option, "{} and {} were made with different tokenizers", *first,
                        prefix);
        }
        facts->appended_eod = facts->appended_eod && side->appended_eod;
    }
    return facts;
}

}  // namespace lm::data
