// SPDX-License-Identifier: Apache-2.0
// The description of a build: the options, the tokenizer and the inputs, which determine the bytes
// of the output. It is stored as run.json in the work directory, so that --resume continues only
// the same build. The metadata file of each output contains a summary of the description, called
// "origin".
#pragma once

#include <string>

#include "io/json_fwd.hpp"
#include "preprocess/input_plan.hpp"
#include "text/tokenizer.hpp"

namespace lm::preprocess {

// Returns the content of run.json. It describes each input by its size, its modification time and
// the digests of both ends of the file, which this function reads.
io::OrderedJson describe_run(const InputPlan& plan, const BuildOptions& options,
                             const text::Tokenizer& tokenizer);

// Returns the "origin" of the metadata files: the options of the run, the number of inputs, and one
// digest of the descriptions of all inputs.
io::Json origin_of(const io::OrderedJson& description);

// Compares `existing`, the origin of existing outputs, with `current`, the origin of this run.
// Returns a description of the first difference, such as "it was made with ..."; an empty string if
// there is no difference.
std::string difference_of_origins(const io::Json& existing, const io::Json& current);

// Reads the run.json of an earlier run at `path` and returns its number of parts. Throws
// Error(usage) naming the first difference to `current`, Error(failure) when the file is corrupt. A
// different number of parts is allowed. If another build of the program wrote the file, only prints
// a note.
i64 parts_of_same_run(const std::string& path, const io::OrderedJson& current);

}  // namespace lm::preprocess
