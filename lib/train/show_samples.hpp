// SPDX-License-Identifier: Apache-2.0
// --show-samples A-B: what these samples of the training were, from the same flags, without a
// model: sample to documents and text.
#pragma once

#include <string>

#include "train/run_config.hpp"

namespace lm::train {

// Samples first to last, both included; they count from 0 over the whole run, so that a log line
// "consumed samples: N" says that samples 0 to N-1 were trained on.
struct SampleRange {
    i64 first = 0;
    i64 last = 0;
};
SampleRange parse_sample_range(const std::string& text);  // "A-B" or "A"; throws Error(usage)

// Writes one JSON object a sample on stdout: sample, iteration (that trains on it), pieces [{data,
// document, offset, tokens, text}]; ids instead of text when the data's tokenizer is not known.
// The last token of a sample is a target only: it is the first of the next window.
void show_samples(const RunConfig& config, const config::DataFlags& flags,
                  const SampleRange& range);

}  // namespace lm::train
