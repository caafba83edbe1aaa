// SPDX-License-Identifier: Apache-2.0
// The inputs that a command line names: files, directories of them, and "-" for standard input.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lm::io {

// Returns the name of an input in messages: its path, or "standard input" for "-".
std::string input_name(const std::string& path);

// Returns the files to read for the arguments of --input, in order. A directory stands for the
// files below it that contain JSON Lines, in bytewise order of their paths: regular files named
// *.jsonl, *.ndjson or *.json (also with a compression suffix), and other files whose content
// starts as JSON Lines do. A file that cannot be read is included, so that the reader reports the
// error. Names that start with a dot are ignored. Notes report all other skipped entries: one note
// for the files that lm-preprocess writes (datasets, also unfinished datasets, and tokenizers), one
// note for each suffix of other files, and one note for each special file and each link to a
// directory. "-" stands for standard input. A name that does not exist may be a pattern of the
// shell in quotes, as for Megatron's preprocess_data.py, and stands for the names that match,
// sorted. Throws Error(usage) for a second "-", for a name that does not exist and for a directory
// without files to read.
std::vector<std::string> expand_inputs(std::span<const std::string> arguments);

}  // namespace lm::io
