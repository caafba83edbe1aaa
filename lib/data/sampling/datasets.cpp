// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/datasets.hpp"

#include <cmath>
#include <map>

#include "base/error.hpp"
#include "base/units.hpp"
#include "data/sampling/set_builder.hpp"

namespace lm::data {
namespace {

// The options of one SplitPart.
struct PartFlags {
    SplitPart part;
    std::string_view path_option, group_option;
    const std::vector<std::string>& path;
    const std::vector<std::string>& groups;
    i64 n_samples;
};

std::array<PartFlags, 3> part_flags(const DataConfig& c) {
    return {{{SplitPart::train, "--train-data-path", "--train-weighted-split-paths", c.train_path,
              c.train_groups, c.train_samples},
             {SplitPart::valid, "--valid-data-path", "--valid-weighted-split-paths", c.valid_path,
              c.valid_groups, c.valid_samples},
             {SplitPart::test, "--test-data-path", "--test-weighted-split-paths", c.test_path,
              c.test_groups, c.test_samples}}};
}

void check_exclusive(const DataConfig& config) {
    const char* given = config.data_path.empty() ? nullptr : "--data-path";
    for (const PartFlags& flags : part_flags(config)) {
        if (!flags.path.empty() && !flags.groups.empty()) {
            usage_error(flags.path_option, "excludes {}: give one of the two", flags.group_option);
        }
        if (given == nullptr || (flags.path.empty() && flags.groups.empty())) continue;
        usage_error(flags.path.empty() ? flags.group_option : flags.path_option,
                    "excludes {}: give one of the two", given);
    }
}

// Returns the groups that the flags of the part name, else the blend that --split divides.
std::vector<PathGroup> groups_of(const DataConfig& config, const PartFlags& flags) {
    std::vector<PathGroup> groups;
    if (!config.data_path.empty()) {
        if (parse_split(config.split).has(flags.part)) {
            groups.push_back(parse_blend("--data-path", config.data_path));
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
                                   const PartFlags& flags) {
    std::vector<NamedSource> sets;
    if (flags.n_samples < 1) return sets;
    const bool optional = flags.part == SplitPart::test && config.test_optional;
    for (const PathGroup& group : groups_of(config, flags)) {
        if (optional && !builder.has_samples(flags.part, group)) continue;
        std::string name = group.name;
        if (name.empty())
            name = flags.part == SplitPart::valid ? "validation" : name_of(flags.part);
        sets.push_back({name, builder.build(flags.part, group, flags.n_samples)});
    }
    return sets;
}

}  // namespace

DataOrder parse_data_order(std::string_view text) {
    if (const auto order = value_in(data_orders, text)) return *order;
    usage_error("--data-order", "'{}' is none of stateless, megatron, megatron-deepspeed", text);
}

std::string_view name_of(DataOrder order) {
    return name_in(data_orders, order);
}

DataSets open_data(const DataConfig& config) {
    check_exclusive(config);
    SetBuilder builder(config);
    const auto parts = part_flags(config);
    auto train = open_part(builder, config, parts[0]);
    if (train.empty()) {
        if (config.data_path.empty()) {
            usage_error("--train-data-path",
                        "names no training data: give it, --train-weighted-split-paths or "
                        "--data-path");
        }
        usage_error("--split", "'{}' assigns no data to the training set: give it a first part",
                    config.split);
    }
    if (train.size() > 1) {
        usage_error("--train-weighted-split-paths",
                    "takes one group, {} are given: join their paths in one group", train.size());
    }
    DataSets sets;
    sets.train = std::move(train.front().source);
    sets.valid = open_part(builder, config, parts[1]);
    sets.test = open_part(builder, config, parts[2]);
    return sets;
}

std::vector<std::string> data_prefixes(const DataConfig& config) {
    std::vector<std::string> prefixes;
    const auto add = [&](const PathGroup& group) {
        for (const DataPath& path : group.paths) prefixes.push_back(path.prefix);
    };
    if (!config.data_path.empty()) add(parse_blend("--data-path", config.data_path));
    for (const PartFlags& flags : part_flags(config)) {
        if (!flags.path.empty()) add(parse_blend(flags.path_option, flags.path));
        for (const std::string& text : flags.groups) add(parse_group(flags.group_option, text));
    }
    return prefixes;
}

std::vector<DataPath> training_paths(const DataConfig& config) {
    if (!config.data_path.empty()) return parse_blend("--data-path", config.data_path).paths;
    const PartFlags flags = part_flags(config).front();
    if (!flags.path.empty()) return parse_blend(flags.path_option, flags.path).paths;
    std::vector<DataPath> paths;
    for (const std::string& text : flags.groups) {
        std::ranges::move(parse_group(flags.group_option, text).paths, std::back_inserter(paths));
    }
    return paths;
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
            usage_error("--data-path", "{} and {} were made with different tokenizers", *first,
                        prefix);
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
        lines.back() += fmt::format(", seen whole after {:.0f} samples of the set", all);
    }
    return lines;
}

}  // namespace lm::data
