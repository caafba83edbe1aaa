// SPDX-License-Identifier: Apache-2.0
#include "train/run_data.hpp"

#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/sampling/data_paths.hpp"
#include "data/sampling/mock_source.hpp"

namespace lm::train {
namespace {

constexpr i64 worth_sharing_bytes = i64{16} << 20;

std::shared_ptr<const text::Tokenizer> named_tokenizer(const text::TokenizerChoice& choice) {
    if (!choice.type && !choice.vocab_file && !choice.merge_file && !choice.model) return nullptr;
    return text::load_tokenizer(choice);
}

std::vector<std::string> groups_of(std::string_view option, const std::vector<std::string>& given,
                                   const std::string& file) {
    if (file.empty()) return given;
    const std::string file_option = std::string(option) + "-path";
    if (!given.empty()) usage_error(file_option, "contradicts {}: give one of the two", option);
    return data::read_group_file(file_option, file);
}

bool is_mock(const data::DataConfig& data) {
    return data.data_path.empty() && data.train_path.empty() && data.train_groups.empty();
}

// Compares the tokenizer that the flags name with the one in the data's metadata file. Warns when
// their digests differ: different files may describe the same tokenizer, such as GPT-2's. Throws
// Error(usage) when their end-of-document tokens differ.
void compare_with_data(const text::Tokenizer& named, const std::string& prefix) {
    const auto metadata = data::read_metadata(prefix);
    if (!metadata || metadata->tokenizer.digest == named.digest()) return;
    if (metadata->eod_id && named.eod() && *metadata->eod_id != *named.eod()) {
        usage_error(data::metadata_path(prefix),
                    "the data's tokenizer is {} with end of document {}, but the given one has end "
                    "of document {}: give the data's tokenizer or none",
                    metadata->tokenizer.type, *metadata->eod_id, *named.eod());
    }
    warn(
        "{}: the data was encoded with another tokenizer file ({} with {} ids) than the given one "
        "({} ids): check that both are the same tokenizer",
        data::metadata_path(prefix), metadata->tokenizer.type, metadata->tokenizer.vocab_size,
        named.vocab_size());
}

}  // namespace

data::DataConfig data_config(const config::DataFlags& flags, u64 seed) {
    return {
        .data_path = flags.data_path,
        .split = flags.split,
        .seed = seed,
        .order = data::parse_data_order(flags.order),
        .index_cache = {.directory = flags.cache_path == "none" ? "" : flags.cache_path},
        .train_path = flags.train_path,
        .valid_path = flags.valid_path,
        .test_path = flags.test_path,
        .train_groups =
            groups_of("--train-weighted-split-paths", flags.train_groups, flags.train_groups_file),
        .valid_groups =
            groups_of("--valid-weighted-split-paths", flags.valid_groups, flags.valid_groups_file),
        .test_groups =
            groups_of("--test-weighted-split-paths", flags.test_groups, flags.test_groups_file)};
}

void check_mock(const data::DataConfig& data, bool mock_data) {
    if (is_mock(data) && !mock_data) {
        usage_error("--data-path",
                    "must be given: the PREFIX of tokens that lm-preprocess wrote, or --mock-data");
    }
    if (!is_mock(data) && mock_data)
        usage_error("--mock-data", "contradicts --data-path: give one of the two");
}

Vocabulary find_vocabulary(const config::DataFlags& flags, const data::DataConfig& data) {
    if (const auto tokenizer = named_tokenizer(flags.tokenizer)) {
        const auto prefixes = data::data_prefixes(data);
        for (const std::string& prefix : std::set<std::string>(prefixes.begin(), prefixes.end())) {
            compare_with_data(*tokenizer, prefix);
        }
        return {tokenizer->vocab_size(), tokenizer->eod(), tokenizer->digest()};
    }
    if (is_mock(data)) return {};
    if (const auto facts = data::data_facts(data::data_prefixes(data))) {
        return {facts->tokenizer.vocab_size, facts->eod_id, facts->tokenizer.digest};
    }
    return {};
}

std::shared_ptr<const text::Tokenizer> tokenizer_of(const RunConfig& config,
                                                    const config::DataFlags& flags) {
    if (auto tokenizer = named_tokenizer(flags.tokenizer)) return tokenizer;
    const auto facts = data::data_facts(data::data_prefixes(config.data));
    if (!facts) return nullptr;
    const std::string& type = facts->tokenizer.type;
    if (type != "ByteTokenizer" && type != "GPT2BPETokenizer") return nullptr;
    auto tokenizer = text::load_tokenizer({.type = type});
    return tokenizer->digest() == facts->tokenizer.digest ? tokenizer : nullptr;
}

data::DataSets open_data(const RunConfig& config) {
    if (!is_mock(config.data)) {
        data::DataConfig data = config.data;
        if (config.share_index) {
            data.index_cache = {data::private_index_directory(), worth_sharing_bytes};
        }
        return data::open_data(data);
    }
    data::DataSets sets;
    const auto mock = [&config](u64 seed) {
        return std::make_unique<data::MockSource>(config.data.seq_length, config.data.vocab_size,
                                                  seed);
    };
    sets.train = mock(config.data.seed);
    if (config.data.valid_samples > 0)
        sets.valid.push_back({"validation", mock(config.data.seed + 1)});
    return sets;
}

}  // namespace lm::train
