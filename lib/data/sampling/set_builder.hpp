// SPDX-License-Identifier: Apache-2.0
// Makes the sample source of one set (a group of weighted datasets) in the order that was asked
// for. Datasets that several sets use are opened once.
#pragma once

#include <map>

#include "data/sampling/datasets.hpp"

namespace lm::data {

class SetBuilder {
  public:
    // `config` must outlive the builder.
    explicit SetBuilder(const DataConfig& config);

    // The part `part` of each path (by --split, or the path's own fraction), blended. Throws as
    // open_data.
    std::unique_ptr<SampleSource> build(SplitPart part, const PathGroup& group, i64 n_samples);
    // Whether every dataset of the group has a sample for this part.
    bool has_samples(SplitPart part, const PathGroup& group);

  private:
    using Sources = std::vector<std::unique_ptr<SampleSource>>;

    // Of a dataset that is open already it may be called from several threads.
    std::shared_ptr<const IndexedDataset> open(const std::string& prefix);
    SequenceRange range_of(SplitPart part, const DataPath& path, i64 n_sequences) const;
    // n_samples 0 with one of Megatron's orders: one epoch.
    std::unique_ptr<SampleSource> build_one(SplitPart part, const DataPath& path, i64 n_samples,
                                            std::string_view stream, int n_threads);
    Sources build_each(SplitPart part, const PathGroup& group, const std::vector<i64>& n_samples);
    std::unique_ptr<SampleSource> build_stateless(SplitPart part, const PathGroup& group);
    std::unique_ptr<SampleSource> build_megatron(SplitPart part, const PathGroup& group,
                                                 i64 n_samples);

    const DataConfig& config_;
    Split split_;
    std::map<std::string, std::shared_ptr<const IndexedDataset>> datasets_;
};

}  // namespace lm::data
