// SPDX-License-Identifier: Apache-2.0
// Builds the sample source of one set (a group of weighted datasets). --data-order selects the
// order of the samples. A dataset that several sets use is opened once.
#pragma once

#include <map>

#include "data/sampling/datasets.hpp"

namespace lm::data {

class SetBuilder {
  public:
    // `config` must outlive the builder.
    explicit SetBuilder(const DataConfig& config);

    // Builds the blend of the group's datasets. Each dataset contributes its `part` of --split
    // (with --data-path), the fraction that its path states, or all of its documents. Throws the
    // errors of open_data().
    std::unique_ptr<SampleSource> build(SplitPart part, const PathGroup& group, i64 n_samples);
    // Returns whether every dataset of the group has at least one sample for this part.
    bool has_samples(SplitPart part, const PathGroup& group);

  private:
    using Sources = std::vector<std::unique_ptr<SampleSource>>;

    // Returns the dataset, and opens it on the first call. Several threads may call this at a time
    // for a dataset that is already open.
    std::shared_ptr<const IndexedDataset> open(const std::string& prefix);
    SequenceRange range_of(SplitPart part, const DataPath& path, i64 n_sequences) const;
    // Builds the source of one dataset. `option` is the flag that names the dataset, for messages.
    // In Megatron's orders, n_samples = 0 requests one epoch.
    std::unique_ptr<SampleSource> build_one(SplitPart part, const DataPath& path,
                                            std::string_view option, i64 n_samples,
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
