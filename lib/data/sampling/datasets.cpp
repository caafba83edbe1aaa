// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/datasets.hpp"

#include <cmath>
#include <map>

#include "base/error.hpp"
#include "base/nearest_name.hpp"
#include "base/units.hpp"
#include "data/sampling/set_builder.hpp"

namespace lm::data {
namespace {

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
