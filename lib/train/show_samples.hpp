// SPDX-License-Identifier: Apache-2.0
// --show-samples A-B: prints samples of a training with their documents and text, from the flags of
// the training and without a model.
#pragma once

#include <string>

#include "train/run_config.hpp"

namespace lm::train {

// Samples `first` to `last`, both included. They count from 0 over the whole training: a log line
// "consumed samples: N" means samples 0 to N-1.
struct SampleRange {
    i64 first = 0;
    i64 last = 0;
};
SampleRange parse_sample_range(const std::string& text);  // "A-B" or "A"; throws Error(usage)

// Writes one JSON object for each sample to stdout: sample, iteration that trains on it, and pieces
// [{data, document, offset, tokens, text}], with ids instead of text when the data's tokenizer is
// not known. The last token of a sample is a target only: the next window starts with it.
void show_samples(const RunConfig& config, const config::DataFlags& flags,
                  const SampleRange& range);

}  // namespace lm::train
