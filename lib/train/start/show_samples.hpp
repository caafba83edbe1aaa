// SPDX-License-Identifier: Apache-2.0
// --show-samples A-B: prints samples of a training with their documents and text. It needs the
// flags of the training, but no model.
#pragma once

#include <string>

#include "train/config/run_config.hpp"

namespace lm::train {

// The samples `first` to `last`, both included. They count from 0 over the whole training: a run
// whose log line states "consumed samples: N" has trained on samples 0 to N-1.
struct SampleRange {
    i64 first = 0;
    i64 last = 0;
};
SampleRange parse_sample_range(const std::string& text);  // "A-B" or "A"; throws Error(usage)

// Writes one JSON object for each sample to stdout: the number of the sample, the iteration that
// trains on the sample, and the pieces of the sample [{data, document, offset, tokens, text}]. A
// piece has ids instead of text when the data's tokenizer is not known. The last token of a sample
// is only a target; it is also the first token of the next sample of the dataset.
void show_samples(const RunConfig& config, const SampleRange& range);

}  // namespace lm::train
