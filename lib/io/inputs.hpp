// SPDX-License-Identifier: Apache-2.0
// The inputs that a command line names: files, directories of them, and "-" for standard input.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lm::io {

// What messages call an input: its path, or standard input.
std::string input_name(const std::string& path);

// The files that --input arguments mean, in order: a directory stands for the files below it that
// hold JSON Lines, in bytewise order of their paths. These are the regular files whose name says so
// (.jsonl, .ndjson, .json, with the ending of a compression or not), and those of other names whose
// content begins as JSON Lines do, or that cannot be looked into, which is for the reader to tell.
// What is left out is named in notes, each kind of name once, but for names that start with a dot:
// what lm-preprocess itself writes there (datasets, side files, work directories, tokenizers),
// other files, what is no file, and links to directories. "-" stands for itself. A name that does
// not exist and a directory of which nothing is left are Error(usage).
std::vector<std::string> expand_inputs(std::span<const std::string> arguments);

}  // namespace lm::io
