// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/datasets.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "base/nearest_name.hpp"
#include "base/rng.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "data/sampling/blend_source.hpp"
#include "data/sampling/megatron_source.hpp"
#include "data/sampling/window_source.hpp"

namespace lm::data {
namespace {

std::string describe(SplitPart part, const DataPath& path) {
    if (!path.fraction) return fmt::format("the {} split of {}", name_of(part), path.prefix);
    return fmt::format("the range {:g}:{:g} of {}", path.fraction->begin, path.fraction->end,
                       path.prefix);
}

void check_size(const SampleSource& source, const std::string& what, std::string_view option,
                i64 n_samples) {
    if (source.size() >= n_samples) return;
    usage_error(option,
                "{} has only {} samples with this --data-order, but the run needs {}: give more "
                "data, or train for fewer samples",
                what, source.size(), n_samples);
}

i64 ceiling(double x) {
    return static_cast<i64>(std::ceil(x));
}

std::vector<double> weights_of(const PathGroup& group) {
    std::vector<double> weights;
    for (const DataPath& path : group.paths) weights.push_back(path.weight);
    return weights;
}

// The numbers of samples of a Megatron blend and of each of its datasets.
struct MegatronSizes {
    std::vector<i64> per_dataset;
    i64 blend = 0;
};

// Returns the sizes that blended_megatron_dataset_builder.py computes: each dataset gets 0.5 % more
// than its share of the samples. Both the share and the result are rounded up.
MegatronSizes nvidia_sizes(const std::vector<double>& weights, i64 n_samples) {
    MegatronSizes sizes;
    for (const double weight : weights) {
        const double share = std::ceil(static_cast<double>(n_samples) * weight);
        sizes.per_dataset.push_back(ceiling(share * (1 + 0.005)));
        sizes.blend += static_cast<i64>(share);
    }
    return sizes;
}

// Returns the sizes that dataset_utils.py computes: each dataset gets 0.5 % more than its share,
// and only this result is rounded up. Leaves `blend` at 0, which means that the blend has all
// samples of its datasets.
MegatronSizes bigscience_sizes(const std::vector<double>& weights, i64 n_samples) {
    MegatronSizes sizes;
    for (const double weight : weights) {
        sizes.per_dataset.push_back(ceiling(static_cast<double>(n_samples) * weight * 1.005));
    }
    return sizes;
}

// Returns the weights divided by their sum. Sums the weights in order, as dataset_utils.py does.
std::vector<double> normalized_plainly(const std::vector<double>& weights) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    std::vector<double> out;
    for (const double weight : weights) out.push_back(weight / sum);
    return out;
}

// Builds the sample source of one set (a group of weighted datasets). --data-order selects the
// order of the samples. A dataset that several sets use is opened once.
class SetBuilder {
  public:
    // `config` must outlive the builder.
    explicit SetBuilder(const DataConfig& config)
        : config_(config), split_(parse_split(config.split)) {}

    // Builds the blend of the group's datasets. Each dataset contributes its `part` of --split
    // (with --data-path), the fraction that its path states, or all of its documents. Throws the
    // errors of open_data().
    std::unique_ptr<SampleSource> build(SplitPart part, const PathGroup& group, i64 n_samples) {
        auto source = config_.order == DataOrder::stateless
                          ? build_stateless(part, group)
                          : build_megatron(part, group, n_samples);
        check_size(*source,
                   fmt::format("the {} set", group.name.empty() ? name_of(part) : group.name),
                   group.option, n_samples);
        return source;
    }
    // Returns whether every dataset of the group has at least one sample for this part.
    bool has_samples(SplitPart part, const PathGroup& group) {
        return std::ranges::all_of(group.paths, [&](const DataPath& path) {
            const auto dataset = open(path.prefix);
            const SequenceRange range = range_of(part, path, dataset->n_sequences());
            return range.size() > 0 &&
                   TokenRange{dataset, range, 0}.n_tokens() > config_.seq_length;
        });
    }

  private:
    using Sources = std::vector<std::unique_ptr<SampleSource>>;

    // Returns the dataset, and opens it on the first call. Several threads may call this at a time
    // for a dataset that is already open.
    std::shared_ptr<const IndexedDataset> open(const std::string& prefix) {
        if (const auto known = datasets_.find(prefix); known != datasets_.end())
            return known->second;
        auto opened = std::make_shared<const IndexedDataset>(IndexedDataset::open(prefix));
        const std::optional<DatasetMetadata> metadata = read_metadata(*opened);
        if (metadata && metadata->tokenizer.vocab_size > config_.vocab_size) {
            usage_error(metadata_path(prefix),
                        "the data was made with a vocabulary of {} ids, the model has {}: set "
                        "--vocab-size or name the tokenizer of the data",
                        metadata->tokenizer.vocab_size, config_.vocab_size);
        }
        return datasets_[prefix] = std::move(opened);
    }
    SequenceRange range_of(SplitPart part, const DataPath& path, i64 n_sequences) const {
        if (path.fraction) return documents_of(*path.fraction, n_sequences);
        if (config_.paths.data_path.empty()) return {0, n_sequences};
        const SplitRounding rounding = config_.order == DataOrder::megatron_deepspeed
                                           ? SplitRounding::bigscience
                                           : SplitRounding::nvidia;
        return split_ranges(split_, n_sequences, rounding)[static_cast<size_t>(part)];
    }
    // Builds the source of one dataset. `option` is the flag that names the dataset, for messages.
    // In Megatron's orders, n_samples = 0 requests one epoch.
    std::unique_ptr<SampleSource> build_one(SplitPart part, const DataPath& path,
                                            std::string_view option, i64 n_samples,
                                            std::string_view stream, int n_threads) {
        const auto dataset = open(path.prefix);
        const SequenceRange range = range_of(part, path, dataset->n_sequences());
        const std::string what = describe(part, path);
        if (range.size() == 0) {
            usage_error(config_.paths.data_path.empty() ? option : "--split",
                        "{} is empty: it has none of the {} documents{}", what,
                        dataset->n_sequences(),
                        dataset->n_sequences() == 0 ? ""
                        : part == SplitPart::valid
                            ? ": use more documents or another --split, or --eval-iters 0"
                            : ": use more documents or another --split");
        }
        const TokenRange tokens{dataset, range, config_.vocab_size};
        if (config_.order == DataOrder::stateless) {
            return std::make_unique<WindowSource>(tokens, config_.seq_length,
                                                  stream_key(config_.seed, stream), what);
        }
        const double threshold =
            config_.order == DataOrder::megatron ? nvidia_last_epoch : bigscience_last_epoch;
        return MegatronSource::create(tokens, config_.seq_length, n_samples, config_.seed,
                                      threshold, what, config_.index_cache, n_threads);
    }
    // Builds the indices of several datasets in parallel.
    Sources build_each(SplitPart part, const PathGroup& group, const std::vector<i64>& n_samples) {
        for (const DataPath& path : group.paths) open(path.prefix);
        Sources sources(group.paths.size());
        const i64 n = static_cast<i64>(sources.size());
        ThreadPool pool(static_cast<int>(std::min<i64>(config_.n_threads, n)));
        const int threads_each = std::max(1, config_.n_threads / pool.size());
        pool.run(n, [&](i64 d, int) {
            const auto k = static_cast<size_t>(d);
            sources[k] =
                build_one(part, group.paths[k], group.option, n_samples[k], "", threads_each);
        });
        return sources;
    }
    std::unique_ptr<SampleSource> build_stateless(SplitPart part, const PathGroup& group) {
        const std::string set = fmt::format("data order {}{}{}", name_of(part),
                                            group.name.empty() ? "" : ":", group.name);
        Sources sources;
        for (const DataPath& path : group.paths) {
            sources.push_back(build_one(part, path, group.option, 0,
                                        fmt::format("{} {}", set, sources.size()), 1));
        }
        if (sources.size() == 1) return std::move(sources.front());
        std::vector<double> weights = weights_of(group);
        if (!group.weighted) {  // the weights are the sizes of the datasets
            for (size_t d = 0; d < sources.size(); ++d) {
                weights[d] = static_cast<double>(sources[d]->use(0).front().epoch_samples);
            }
        }
        auto rule =
            std::make_unique<ProportionalBlend>(weights, stream_key(config_.seed, set + " blend"));
        return std::make_unique<BlendSource>(std::move(sources), std::move(rule), endless);
    }
    std::unique_ptr<SampleSource> build_megatron(SplitPart part, const PathGroup& group,
                                                 i64 n_samples) {
        // A single dataset is not blended, unless --data-path gives it a weight.
        if (group.paths.size() == 1 && !(group.weighted && !config_.paths.data_path.empty())) {
            return build_one(part, group.paths.front(), group.option, n_samples, "",
                             config_.n_threads);
        }
        std::vector<double> weights = weights_of(group);
        MegatronSizes sizes{std::vector<i64>(weights.size()), 0};
        if (group.weighted && config_.order == DataOrder::megatron) {
            weights = normalized_like_numpy(weights);
            sizes = nvidia_sizes(weights, n_samples);
        } else if (group.weighted) {
            weights = normalized_plainly(weights);
            sizes = bigscience_sizes(weights, n_samples);
        }
        Sources sources = build_each(part, group, sizes.per_dataset);
        i64 total = 0;
        for (size_t d = 0; d < sources.size(); ++d) {
            total += sources[d]->size();
            if (!group.weighted) weights[d] = static_cast<double>(sources[d]->size());
        }
        if (!group.weighted) sizes.blend = std::min(n_samples, total);
        if (sizes.blend == 0) sizes.blend = total;
        std::vector<i64> have;
        for (const auto& source : sources) have.push_back(source->size());
        auto blend = std::make_unique<BlendSource>(
            std::move(sources), std::make_unique<GreedyBlend>(normalized_like_numpy(weights)),
            sizes.blend);
        const std::vector<i64> taken = blend->counts(std::min(n_samples, sizes.blend));
        for (size_t d = 0; d < taken.size(); ++d) {
            if (taken[d] <= have[d]) continue;
            usage_error(group.option, "the blend needs {} samples of {}, whose sample index has {}",
                        taken[d], group.paths[d].prefix, have[d]);
        }
        return blend;
    }

    const DataConfig& config_;
    Split split_;
    std::map<std::string, std::shared_ptr<const IndexedDataset>> datasets_;
};

// The options that name the data of one SplitPart, and their values.
struct PartFlags {
    SplitPart part;
    std::string_view path_option, group_option;
    const std::vector<std::string>& path;
    const std::vector<std::string>& groups;
};

std::array<PartFlags, 3> part_flags(const DataPaths& p) {
    return {{{SplitPart::train, "--train-data-path", "--train-weighted-split-paths", p.train_path,
              p.train_groups},
             {SplitPart::valid, "--valid-data-path", "--valid-weighted-split-paths", p.valid_path,
              p.valid_groups},
             {SplitPart::test, "--test-data-path", "--test-weighted-split-paths", p.test_path,
              p.test_groups}}};
}

void check_exclusive(const DataPaths& paths) {
    const char* given = paths.data_path.empty() ? nullptr : "--data-path";
    for (const PartFlags& flags : part_flags(paths)) {
        if (!flags.path.empty() && !flags.groups.empty()) {
            usage_error(flags.path_option, "cannot be combined with {}: give one of the two",
                        flags.group_option);
        }
        if (given == nullptr || (flags.path.empty() && flags.groups.empty())) continue;
        usage_error(flags.path.empty() ? flags.group_option : flags.path_option,
                    "cannot be combined with {}: give one of the two", given);
    }
}

// Returns the groups that the flags of the part name. If they name none, returns the blend that
// --split divides.
std::vector<PathGroup> groups_of(const DataConfig& config, const PartFlags& flags) {
    std::vector<PathGroup> groups;
    const std::vector<std::string>& data_path = config.paths.data_path;
    if (!data_path.empty()) {
        if (parse_split(config.split).has(flags.part)) {
            groups.push_back(parse_blend("--data-path", data_path));
        }
        return groups;
    }
    if (!flags.path.empty()) groups.push_back(parse_blend(flags.path_option, flags.path));
    for (const std::string& text : flags.groups) {
        groups.push_back(parse_group(flags.group_option, text));
        for (size_t k = 0; k + 1 < groups.size(); ++k) {
            if (groups[k].name == groups.back().name) {
                usage_error(flags.group_option, "two sets have the name {}", groups[k].name);
            }
        }
    }
    return groups;
}

std::vector<NamedSource> open_part(SetBuilder& builder, const DataConfig& config,
                                   const PartFlags& flags, i64 n_samples) {
    std::vector<NamedSource> sets;
    if (n_samples < 1) return sets;
    const bool optional = flags.part == SplitPart::test && config.test_optional;
    for (const PathGroup& group : groups_of(config, flags)) {
        if (optional && !builder.has_samples(flags.part, group)) continue;
        std::string name = group.name;
        if (name.empty())
            name = flags.part == SplitPart::valid ? "validation" : name_of(flags.part);
        sets.push_back({name, builder.build(flags.part, group, n_samples)});
    }
    return sets;
}

}  // namespace

DataOrder parse_data_order(std::string_view text) {
    if (const auto order = value_in(data_orders, text)) return *order;
    refuse_value("--data-order", text, names_in(data_orders));
}

std::string_view name_of(DataOrder order) {
    return name_in(data_orders, order);
}

DataSets open_data(const DataConfig& config) {
    check_exclusive(config.paths);
    SetBuilder builder(config);
    const auto parts = part_flags(config.paths);
    auto train = open_part(builder, config, parts[0], config.train_samples);
    if (train.empty()) {
        if (config.paths.data_path.empty()) {
            usage_error("--train-data-path",
                        "no training data: give --train-data-path, --train-weighted-split-paths or "
                        "--data-path");
        }
        usage_error("--split",
                    "'{}' assigns no data to the training set: give a first number above 0, such "
                    "as 969,30,1",
                    config.split);
    }
    if (train.size() > 1) {
        usage_error("--train-weighted-split-paths",
                    "takes one group, {} are given: join their paths in one group", train.size());
    }
    DataSets sets;
    sets.train = std::move(train.front().source);
    sets.valid = open_part(builder, config, parts[1], config.valid_samples);
    sets.test = open_part(builder, config, parts[2], config.test_samples);
    return sets;
}

std::vector<std::string> data_prefixes(const DataPaths& paths) {
    std::vector<std::string> prefixes;
    const auto add = [&](const PathGroup& group) {
        for (const DataPath& path : group.paths) prefixes.push_back(path.prefix);
    };
    if (!paths.data_path.empty()) add(parse_blend("--data-path", paths.data_path));
    for (const PartFlags& flags : part_flags(paths)) {
        if (!flags.path.empty()) add(parse_blend(flags.path_option, flags.path));
        for (const std::string& text : flags.groups) add(parse_group(flags.group_option, text));
    }
    return prefixes;
}

std::vector<DataPath> training_paths(const DataPaths& paths) {
    if (!paths.data_path.empty()) return parse_blend("--data-path", paths.data_path).paths;
    const PartFlags flags = part_flags(paths).front();
    if (!flags.path.empty()) return parse_blend(flags.path_option, flags.path).paths;
    std::vector<DataPath> all;
    for (const std::string& text : flags.groups) {
        std::ranges::move(parse_group(flags.group_option, text).paths, std::back_inserter(all));
    }
    return all;
}

std::optional<DataFacts> data_facts(const std::vector<std::string>& prefixes) {
    std::optional<DataFacts> facts;
    const std::string* first = nullptr;
    for (const std::string& prefix : prefixes) {
        const std::optional<DatasetMetadata> metadata = read_metadata(prefix);
        if (!metadata) return std::nullopt;
        if (!facts) {
            facts = DataFacts{metadata->tokenizer, metadata->eod_id, metadata->appended_eod};
            first = &prefix;
            continue;
        }
        if (facts->tokenizer.digest != metadata->tokenizer.digest) {
            usage_error("--data-path",
                        "{} and {} were made with different tokenizers: encode both with the "
                        "tokenizer of the model",
                        *first, prefix);
        }
        facts->appended_eod = facts->appended_eod && metadata->appended_eod;
    }
    return facts;
}

std::vector<std::string> describe_use(std::string_view name, const SampleSource& source,
                                      i64 n_samples) {
    std::vector<std::string> lines;
    for (const DatasetUse& use : source.use(n_samples)) {
        lines.push_back(fmt::format(
            "{}: {} documents [{}, {}) {} tokens, weight {:.4f}, {:.2f} epochs in {} samples", name,
            use.prefix, use.sequences.begin, use.sequences.end,
            human_count(static_cast<double>(use.tokens)), use.weight, use.epochs, use.samples));
        if (use.epochs <= 1 || use.weight <= 0) continue;
        const double all = std::ceil(static_cast<double>(use.epoch_samples) / use.weight);
        lines.back() += fmt::format(", all of it seen after {:.0f} samples of the set", all);
    }
    return lines;
}

}  // namespace lm::data
