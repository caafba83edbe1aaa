// SPDX-License-Identifier: Apache-2.0
// A restricted machine for pickles (protocols 1 to 5): it accepts the opcodes and globals that
// occur in checkpoints, refuses all others, and executes nothing. A call that only describes data
// (OrderedDict, tensors, Size, ...) becomes that data; any other call stays a record. Memory and
// nesting are bounded. Format: pickletools.py of CPython.
#pragma once

#include <span>
#include <string>

#include "convert/torch/pickle_value.hpp"

namespace lm::convert {

// Parses the pickle that begins at bytes[at], and sets `at` to the end of the pickle. Throws
// Error(failure) that names `path`, the byte and the reason.
Pickle parse_pickle(std::span<const std::byte> bytes, size_t& at, const std::string& path);

}  // namespace lm::convert
