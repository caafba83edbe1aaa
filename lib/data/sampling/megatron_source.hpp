// SPDX-License-Identifier: Apache-2.0
// The samples of one dataset in one of Megatron's orders (--data-order megatron or
// megatron-deepspeed), for a run that must read the same samples as a Megatron-LM run. The order
// needs an index: 20 bytes per sample, and 4 per document and epoch. The index is in memory, or in
// a file that the processes of a node share. The order depends on the number of samples, which must
// be known in advance.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "data/sampling/megatron_index.hpp"
#include "data/sampling/sample_source.hpp"

namespace lm::data {

class MegatronSource final : public SampleSource {
  public:
    // `n_samples` is the requested number of samples; 0: one epoch. Throws Error(usage) naming
    // --seq-length when the range has fewer than seq_length + 1 tokens. `what` describes the range
    // in this error: "the train split of P". Builds the index, or opens the shared one.
    static std::unique_ptr<MegatronSource> create(TokenRange range, i64 seq_length, i64 n_samples,
                                                  u64 seed, double last_epoch_threshold,
                                                  const std::string& what,
                                                  const IndexCache& cache = {}, int n_threads = 1);

    i64 size() const override { return plan_.n_samples; }
    void fill(i64 sample, std::span<i32> tokens) const override;
    std::vector<TokenSpan> spans(i64 sample) const override;
    std::vector<DatasetUse> use(i64 n_samples) const override;

    const EpochPlan& plan() const { return plan_; }
    const MegatronIndex& index() const { return index_; }

  private:
    MegatronSource(TokenRange range, i64 seq_length, const EpochPlan& plan, MegatronIndex index)
        : SampleSource(seq_length),
          range_(std::move(range)),
          n_tokens_(range_.n_tokens()),
          plan_(plan),
          index_(std::move(index)) {}

    TokenRange range_;
    i64 n_tokens_;
    EpochPlan plan_;
    MegatronIndex index_;
};

}  // namespace lm::data
