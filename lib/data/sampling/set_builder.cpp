// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/set_builder.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "base/threads.hpp"
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

}  // namespace

SetBuilder::SetBuilder(const DataConfig& config)
    : config_(config), split_(parse_split(config.split)) {}

std::shared_ptr<const IndexedDataset> SetBuilder::open(const std::string& prefix) {
    if (const auto known = datasets_.find(prefix); known != datasets_.end()) return known->second;
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

SequenceRange SetBuilder::range_of(SplitPart part, const DataPath& path, i64 n_sequences) const {
    if (path.fraction) return documents_of(*path.fraction, n_sequences);
    if (config_.paths.data_path.empty()) return {0, n_sequences};
    const SplitRounding rounding = config_.order == DataOrder::megatron_deepspeed
                                       ? SplitRounding::bigscience
                                       : SplitRounding::nvidia;
    return split_ranges(split_, n_sequences, rounding)[static_cast<size_t>(part)];
}

std::unique_ptr<SampleSource> SetBuilder::build_one(SplitPart part, const DataPath& path,
                                                    std::string_view option, i64 n_samples,
                                                    std::string_view stream, int n_threads) {
    const auto dataset = open(path.prefix);
    const SequenceRange range = range_of(part, path, dataset->n_sequences());
    const std::string what = describe(part, path);
    if (range.size() == 0) {
        usage_error(config_.paths.data_path.empty() ? option : "--split",
                    "{} is empty: it has none of the {} documents{}", what, dataset->n_sequences(),
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
    return MegatronSource::create(tokens, config_.seq_length, n_samples, config_.seed, threshold,
                                  what, config_.index_cache, n_threads);
}

std::unique_ptr<SampleSource> SetBuilder::build_stateless(SplitPart part, const PathGroup& group) {
    const std::string set =
        fmt::format("data order {}{}{}", name_of(part), group.name.empty() ? "" : ":", group.name);
    Sources sources;
    for (const DataPath& path : group.paths) {
        sources.push_back(
            build_one(part, path, group.option, 0, fmt::format("{} {}", set, sources.size()), 1));
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

// Builds the indices of several datasets in parallel.
SetBuilder::Sources SetBuilder::build_each(SplitPart part, const PathGroup& group,
                                           const std::vector<i64>& n_samples) {
    for (const DataPath& path : group.paths) open(path.prefix);
    Sources sources(group.paths.size());
    const i64 n = static_cast<i64>(sources.size());
    ThreadPool pool(static_cast<int>(std::min<i64>(config_.n_threads, n)));
    const int threads_each = std::max(1, config_.n_threads / pool.size());
    pool.run(n, [&](i64 d, int) {
        const auto k = static_cast<size_t>(d);
        sources[k] = build_one(part, group.paths[k], group.option, n_samples[k], "", threads_each);
    });
    return sources;
}

std::unique_ptr<SampleSource> SetBuilder::build_megatron(SplitPart part, const PathGroup& group,
                                                         i64 n_samples) {
    // A single dataset is not blended, unless --data-path gives it a weight.
    if (group.paths.size() == 1 && !(group.weighted && !config_.paths.data_path.empty())) {
        return build_one(part, group.paths.front(), group.option, n_samples, "", config_.n_threads);
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

bool SetBuilder::has_samples(SplitPart part, const PathGroup& group) {
    return std::ranges::all_of(group.paths, [&](const DataPath& path) {
        const auto dataset = open(path.prefix);
        const SequenceRange range = range_of(part, path, dataset->n_sequences());
        return range.size() > 0 && TokenRange{dataset, range, 0}.n_tokens() > config_.seq_length;
    });
}

std::unique_ptr<SampleSource> SetBuilder::build(SplitPart part, const PathGroup& group,
                                                i64 n_samples) {
    auto source = config_.order == DataOrder::stateless ? build_stateless(part, group)
                                                        : build_megatron(part, group, n_samples);
    check_size(*source, fmt::format("the {} set", group.name.empty() ? name_of(part) : group.name),
               group.option, n_samples);
    return source;
}

}  // namespace lm::data
