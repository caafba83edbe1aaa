// SPDX-License-Identifier: Apache-2.0
// A restricted machine for pickles (protocols 1 to 5): it knows the opcodes and globals of
// checkpoints, refuses all others, and executes nothing. Calls with a meaning as data (OrderedDict,
// tensors, Size, ...) become that data; others stay records. Memory and nesting are bounded.
// Format: pickletools.py of CPython.
#pragma once

#include <span>
#include <string>

#include "convert/torch/pickle_value.hpp"

namespace lm::convert {

// Parses one pickle from bytes[at...] and sets `at` after it. Throws Error(failure) naming `path`,
// the byte and the reason.
Pickle parse_pickle(std::span<const std::byte> bytes, size_t& at, const std::string& path);

}  // namespace lm::convert
