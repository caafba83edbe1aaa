// SPDX-License-Identifier: Apache-2.0
#include "train/config/run_data.hpp"

#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/sampling/data_paths.hpp"
#include "data/sampling/mock_source.hpp"

namespace lm::train {
namespace {

constexpr i64 worth_sharing_bytes = i64{16} << 20;

// Returns whether the choice is Megatron's NullTokenizer, which has a vocabulary size but no texts.
// Its last id is the end-of-document id.
bool is_null(const text::TokenizerChoice& choice) {
    return choice.type == "NullTokenizer";
}

std::shared_ptr<const text::Tokenizer> named_tokenizer(const text::TokenizerChoice& choice) {
    if (is_null(choice)) return nullptr;
    if (!choice.names_one()) return nullptr;
    return text::load_tokenizer(choice);
}

// Returns the place for the index of Megatron's data orders. This is the directory of
// --data-cache-path, or by default a private directory that the ranks of a host share. With "none",
// and by default in a dry run, it is the memory of each process.
data::IndexCache index_cache(const RunConfig& config) {
    if (config.data.cache_path == "none") return {};
    const bool shares = config.data.cache_path.empty() && !config.action.dry_run &&
                        config.data_order != data::DataOrder::stateless;
    if (shares) return {data::private_index_directory(), worth_sharing_bytes};
    return {.directory = config.data.cache_path};
}

// Compares the tokenizer that the flags name with the tokenizer in the data's metadata file. Only
// warns when their digests differ, because different files may describe the same tokenizer. Throws
// Error(usage) when their end-of-document tokens differ.
void compare_with_data(const text::Tokenizer& named, const std::string& prefix) {
    const auto metadata = data::read_metadata(prefix);
    if (!metadata || metadata->tokenizer.digest == named.digest()) return;
    if (metadata->eod_id && named.eod() && *metadata->eod_id != *named.eod()) {
        usage_error(data::metadata_path(prefix),
                    "the tokenizer of the data is {} with end-of-document id {}, but the given "
                    "tokenizer has {}: give the tokenizer of the data, or no tokenizer",
                    metadata->tokenizer.type, *metadata->eod_id, *named.eod());
    }
    warn(
        "{}: the tokenizer file of the data ({}, {} ids) differs from the given tokenizer file ({} "
        "ids): check that both files describe the same tokenizer",
        data::metadata_path(prefix), metadata->tokenizer.type, metadata->tokenizer.vocab_size,
        named.vocab_size());
}

}  // namespace

void check_mock(const config::DataFlags& flags) {
    if (flags.paths.empty() && !flags.mock_data) {
        usage_error("--data-path",
                    "is missing: give the PREFIX of a dataset of lm-preprocess, or --mock-data");
    }
    if (!flags.paths.empty() && flags.mock_data)
        usage_error("--mock-data", "cannot be combined with --data-path: give one of the two");
}

Vocabulary find_vocabulary(const config::DataFlags& flags, std::optional<i64> vocab_size) {
    if (is_null(flags.tokenizer)) {
        if (!vocab_size) usage_error("--vocab-size", "is missing: NullTokenizer needs it");
        return {vocab_size, *vocab_size - 1, ""};
    }
    const std::vector<std::string> prefixes = data::data_prefixes(flags.paths);
    if (const auto tokenizer = named_tokenizer(flags.tokenizer)) {
        for (const std::string& prefix : std::set<std::string>(prefixes.begin(), prefixes.end())) {
            compare_with_data(*tokenizer, prefix);
        }
        return {tokenizer->vocab_size(), tokenizer->eod(), tokenizer->digest()};
    }
    if (flags.paths.empty()) return {};
    if (const auto facts = data::data_facts(prefixes)) {
        return {facts->tokenizer.vocab_size, facts->eod_id, facts->tokenizer.digest};
    }
    return {};
}

std::shared_ptr<const text::Tokenizer> tokenizer_of(const RunConfig& config) {
    if (auto tokenizer = named_tokenizer(config.data.tokenizer)) return tokenizer;
    const auto facts = data::data_facts(data::data_prefixes(config.data.paths));
    if (!facts) return nullptr;
    const std::string& type = facts->tokenizer.type;
    if (type != "ByteTokenizer" && type != "GPT2BPETokenizer") return nullptr;
    auto tokenizer = text::load_tokenizer({.type = type});
    return tokenizer->digest() == facts->tokenizer.digest ? tokenizer : nullptr;
}

data::DataSets open_data(const RunConfig& config) {
    const spec::ModelConfig& model = config.trainer.model;
    const u64 seed = config.trainer.seed;
    if (!config.data.paths.empty()) {
        return data::open_data({.paths = config.data.paths,
                                .split = config.data.split,
                                .seq_length = model.seq_length,
                                .vocab_size = model.vocab_size,
                                .seed = seed,
                                // Megatron builds its index for --train-samples samples, even if
                                // the last batch is incomplete and not used.
                                .train_samples = config.schedule.planned_samples(),
                                .valid_samples = config.all_validation_samples(),
                                .test_samples = config.validation_samples(),
                                .test_optional = !config.data.split.given,
                                .order = config.data_order,
                                .index_cache = index_cache(config),
                                .n_threads = config.trainer.n_threads});
    }
    const auto mock = [&model](u64 mock_seed) {
        return std::make_unique<data::MockSource>(model.seq_length, model.vocab_size, mock_seed);
    };
    data::DataSets sets;
    sets.train = mock(seed);
    if (config.validation_samples() > 0) sets.valid.push_back({"validation", mock(seed + 1)});
    return sets;
}

}  // namespace lm::train
