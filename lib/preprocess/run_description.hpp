// SPDX-License-Identifier: Apache-2.0
// The description of a build that decides the bytes of its output: options, tokenizer and inputs.
// It is stored as run.json in the work directory, so that --resume continues only the same build. A
// summary is the "origin" in the metadata file of each output.
#pragma once

#include <string>

#include "io/json.hpp"
#include "preprocess/input_plan.hpp"
#include "text/tokenizer.hpp"

namespace lm::preprocess {

// Returns the content of run.json. Inputs are described by size, time of change and digests of
// both ends, which are read here.
io::OrderedJson describe_run(const InputPlan& plan, const BuildOptions& options,
                             const text::Tokenizer& tokenizer);

// Returns the origin that the metadata files keep of a run: its options, and the number and one
// digest of its inputs.
io::Json origin_of(const io::OrderedJson& description);

// Compares the origin of existing outputs with that of this run. Returns the first difference as
// "made with ..."; empty when there is none.
std::string difference_of_origins(const io::Json& existing, const io::Json& current);

// Reads the run.json at `path`, which an earlier run wrote, and returns its number of parts per
// rank. Throws Error(usage) naming the first thing in which `current` differs from it,
// Error(failure) when it is corrupt. The number of parts may differ; another build of the program
// is only noted.
i64 parts_of_same_run(const std::string& path, const io::OrderedJson& current);

}  // namespace lm::preprocess
