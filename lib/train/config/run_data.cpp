// SPDX-License-Identifier: Apache-2.0
#include "train/config/run_data.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/problem_list.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/sampling/data_paths.hpp"
#include "data/sampling/mock_source.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::train {
namespace {

constexpr i64 worth_sharing_bytes = i64{16} << 20;

// Returns whether the choice is Megatron's NullTokenizer, which has a vocabulary size but no texts.
// Its last id is the end-of-document id.
bool is_null(const text::TokenizerChoice& choice) {
    return choice.type == "NullTokenizer";
}

// Returns the tokenizer that the flags name, or nullptr. Special tokens in text are treated as in
// the data, which a training does not change, and which the steps must state.
std::shared_ptr<const text::Tokenizer> named_tokenizer(const config::DataFlags& flags) {
    const text::TokenizerChoice& choice = flags.tokenizer;
    if (is_null(choice) || !choice.names_one()) return nullptr;
    const std::vector<std::string> prefixes = data::data_prefixes(flags.paths);
    const auto metadata = prefixes.empty() ? std::nullopt : data::read_metadata(prefixes.front());
    return text::load_tokenizer(choice, metadata ? metadata->tokenizer.digest : "");
}

// Returns the files of the tokenizer that wrote the data; none if one is missing or has changed.
std::vector<ckpt::TokenizerFile> unchanged_files(const data::TokenizerFacts& facts) {
    std::vector<ckpt::TokenizerFile> files;
    for (const auto& [name, path, digest] : facts.files) {
        if (!io::exists(path)) return {};
        files.push_back(ckpt::tokenizer_file(name, io::read_file(path)));
        if (files.back().digest != digest) return {};
    }
    return files;
}

// Returns the tokenizer that wrote the data, from its files if they are unchanged, or the installed
// one; nullptr if neither is there.
std::shared_ptr<const text::Tokenizer> tokenizer_of_data(const data::TokenizerFacts& facts) {
    if (facts.files.empty()) return text::installed_tokenizer(facts.digest);
    if (unchanged_files(facts).empty()) return nullptr;
    text::TokenizerChoice choice;
    for (const auto& [name, path, digest] : facts.files) {
        if (name == "tokenizer.json") choice.model = path;
        if (name == "vocab.json" && facts.type == "HFTokenizer") choice.model = io::parent_of(path);
        if (facts.type != "GPT2BPETokenizer") continue;
        if (name == "vocab.json") choice.vocab_file = path;
        if (name == "merges.txt") choice.merge_file = path;
    }
    return text::load_tokenizer(choice, facts.digest);
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

void require_datasets(const data::DataPaths& paths) {
    const std::vector<std::string> prefixes = data::data_prefixes(paths);
    Problems problems;
    for (const std::string& prefix : std::set<std::string>(prefixes.begin(), prefixes.end())) {
        problems.check([&] { data::require_dataset(prefix); });
    }
    problems.throw_found();
}

Vocabulary find_vocabulary(const config::DataFlags& flags, std::optional<i64> vocab_size) {
    if (is_null(flags.tokenizer)) {
        if (!vocab_size) usage_error("--vocab-size", "is missing: NullTokenizer needs it");
        return {vocab_size, *vocab_size - 1, ""};
    }
    const std::vector<std::string> prefixes = data::data_prefixes(flags.paths);
    if (const auto tokenizer = named_tokenizer(flags)) {
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
    if (auto tokenizer = named_tokenizer(config.data)) return tokenizer;
    const auto facts = data::data_facts(data::data_prefixes(config.data.paths));
    return facts ? tokenizer_of_data(facts->tokenizer) : nullptr;
}

std::shared_ptr<const text::Tokenizer> tokenizer_of(const ckpt::Checkpoint& checkpoint) {
    const ckpt::TokenizerInfo& saved = checkpoint.manifest().tokenizer;
    if (saved.files.empty())
        return saved.digest.empty() ? nullptr : text::installed_tokenizer(saved.digest);
    const auto choice = text::choice_in(checkpoint.path());
    return choice ? text::load_tokenizer(*choice, saved.digest) : nullptr;
}

std::vector<ckpt::TokenizerFile> tokenizer_files(const config::DataFlags& flags) {
    std::vector<ckpt::TokenizerFile> files;
    for (const auto& [name, path] : text::files_of(flags.tokenizer)) {
        files.push_back(ckpt::tokenizer_file(name, io::read_file(path)));
    }
    if (!files.empty() || flags.tokenizer.names_one()) return files;
    const auto facts = data::data_facts(data::data_prefixes(flags.paths));
    return facts ? unchanged_files(facts->tokenizer) : files;
}

std::vector<ckpt::TokenizerFile> tokenizer_files(
    const RunConfig& config, const std::optional<ckpt::Checkpoint>& checkpoint) {
    std::vector<ckpt::TokenizerFile> files = tokenizer_files(config.data);
    if (!files.empty() || !checkpoint) return files;
    // check_changes() has accepted the tokenizer of the checkpoint.
    return ckpt::read_tokenizer_files(checkpoint->path(), checkpoint->manifest().tokenizer.files);
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
