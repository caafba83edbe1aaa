// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/blend_source.hpp"

#include "base/error.hpp"

namespace lm::data {
namespace {

constexpr i64 checkpoint_every = 256;  // blocks

}  // namespace

BlendSource::BlendSource(std::vector<std::unique_ptr<SampleSource>> sources,
                         std::unique_ptr<BlendRule> rule, i64 size)
    : SampleSource(sources.at(0)->seq_length()),
      sources_(std::move(sources)),
      rule_(std::move(rule)),
      size_(size),
      checkpoints_(1, std::vector<i64>(sources_.size())),
      counted_(sources_.size()),
      listed_(static_cast<size_t>(blend_block)) {
    LM_CHECK(rule_->n_datasets() == sources_.size(), "expected {} weights, got {}", sources_.size(),
             rule_->n_datasets());
}

std::vector<i64> BlendSource::counts_before_block(i64 block) const {
    const i64 newest = static_cast<i64>(checkpoints_.size()) - 1;
    const i64 checkpoint = std::min(block / checkpoint_every, newest);
    if (counted_block_ > block || counted_block_ < checkpoint * checkpoint_every) {
        counted_block_ = checkpoint * checkpoint_every;
        counted_ = checkpoints_[static_cast<size_t>(checkpoint)];
    }
    while (counted_block_ < block) {
        rule_->advance(counted_block_, blend_block, counted_, {});
        ++counted_block_;
        if (counted_block_ == static_cast<i64>(checkpoints_.size()) * checkpoint_every) {
            checkpoints_.push_back(counted_);
        }
    }
    return counted_;
}

BlendEntry BlendSource::entry(i64 sample) const {
    LM_CHECK(sample >= 0 && sample < size_, "expected a sample below {}, got {}", size_, sample);
    const i64 block = sample / blend_block;
    const std::lock_guard lock(mutex_);
    if (listed_block_ != block) {
        std::vector<i64> counts = counts_before_block(block);
        rule_->advance(block, blend_block, counts, listed_);
        listed_block_ = block;
    }
    return listed_[static_cast<size_t>(sample % blend_block)];
}

std::vector<i64> BlendSource::counts(i64 n_samples) const {
    const std::lock_guard lock(mutex_);
    std::vector<i64> counts = counts_before_block(n_samples / blend_block);
    rule_->advance(n_samples / blend_block, n_samples % blend_block, counts, {});
    return counts;
}

void BlendSource::fill(i64 sample, std::span<i32> tokens) const {
    const BlendEntry at = entry(sample);
    sources_[static_cast<size_t>(at.dataset)]->fill(at.sample, tokens);
}

std::vector<TokenSpan> BlendSource::spans(i64 sample) const {
    const BlendEntry at = entry(sample);
    return sources_[static_cast<size_t>(at.dataset)]->spans(at.sample);
}

std::vector<DatasetUse> BlendSource::use(i64 n_samples) const {
    const std::vector<i64> taken = counts(n_samples);
    std::vector<DatasetUse> all;
    for (size_t d = 0; d < sources_.size(); ++d) {
        for (DatasetUse& use : sources_[d]->use(taken[d])) {
            use.weight *=
                static_cast<double>(taken[d]) / static_cast<double>(std::max<i64>(1, n_samples));
            all.push_back(std::move(use));
        }
    }
    return all;
}

}  // namespace lm::data
